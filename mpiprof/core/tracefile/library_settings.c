/* Settings of the MPI library that affect its selection of algorithms, for meta.json. The process
 * that writes meta.json reads them once, through MPI_T.
 *
 * Only releases with known algorithm names are queried, because other settings could not be
 * interpreted. mpiprof's selection does not depend on these values, nor on the environment, which
 * belongs to the launcher and the library. For MPI_T, Open MPI opens all its components, which
 * takes 0.2 s if they are files. So Open MPI is queried only if the environment enables its forced
 * algorithms, and MPI_T is finalised at once.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mpi_t.h"
#include "base/pmpi.h"
#include "tracefile/tracefile.h"

enum { NAME_BYTES = 256, MOST_BYTES = 1024 };
enum { MOST_VARIABLES = 32, MOST_NAME = 64, MOST_VALUE = 100 }; /* of threads, in bytes */

enum { LEAST_MAJOR = 5 };

/* Patterns of the variables that affect the algorithms of blocking collectives, and of others that
 * match too. */
#ifdef MPIPROF_ABI_openmpi
static const char *const relevant[] = {"coll",
                                       "coll_tuned_use_dynamic_rules*",
                                       "coll_tuned_dynamic_rules_*",
                                       "coll_sync_barrier_*",
                                       "coll*_priority",
                                       "coll*_algorithm",
                                       "coll*_segmentsize",
                                       NULL};
static const char *const irrelevant[] = {NULL};

static bool is_wanted(const char *version)
{
    int major = 0;

    return sscanf(version, "Open MPI v%d", &major) == 1 && major >= LEAST_MAJOR &&
           getenv("OMPI_MCA_coll_tuned_use_dynamic_rules") != NULL && pmpi.Query_thread != NULL;
}
#else
static const char *const relevant[] = {"MPIR_CVAR*_INTRA_ALGORITHM*",
                                       "MPIR_CVAR*_COMPOSITION*",
                                       "MPIR_CVAR*_COLLECTIVES*",
                                       "MPIR_CVAR*_TUNING_JSON_FILE*",
                                       "MPIR_CVAR*_NOLOCAL*",
                                       "MPIR_CVAR*_CLIQUES*",
                                       "MPIR_CVAR*_UCC_ENABLE*",
                                       "MPIR_CVAR*_ENABLE_UCC*",
                                       "MPIR_CVAR*_HCOLL*",
                                       "MPIR_CVAR*_CH4_NETMOD*",
                                       NULL};
static const char *const irrelevant[] = {"*_CVAR_I*", "*_NEIGHBOR_*", NULL};

static bool is_wanted(const char *version)
{
    int major = 0;

    return sscanf(version, "MPICH Version: %d", &major) == 1 && major >= LEAST_MAJOR;
}
#endif

static bool matches_any(const char *name, const char *const *patterns)
{
    while (*patterns != NULL && fnmatch(*patterns, name, 0) != 0)
        patterns++;
    return *patterns != NULL;
}

/* Return the value of a text variable. MPICH's MPI_T_cvar_read always returns an empty text. */
static const char *text_of(const char *name, const char *read)
{
#ifdef MPIPROF_ABI_openmpi
    (void)name;
    return read;
#else
    static const char *const heads[] = {"MPIR_CVAR_", "MPIR_PARAM_", "MPICH_"};
    char other[NAME_BYTES + 16];
    const char *found = read[0] != '\0' ? read : NULL;

    for (int i = 0; i < 3 && found == NULL; i++) {
        snprintf(other, sizeof other, "%s%s", heads[i], name + strlen(heads[0]));
        found = getenv(other);
    }
    return found != NULL ? found : "";
#endif
}

int library_setting_node_processes(void)
{
#ifdef MPIPROF_ABI_openmpi
    const char *const local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
#else
    const char *const local = getenv("MPI_LOCALNRANKS"); /* set by Hydra */
#endif
    return local != NULL ? atoi(local) : 0;
}

/* Add a variable's value if it is neither 0 nor empty. */
static void value_add(struct text *t, int index, const char *name, MPI_Datatype type)
{
    const char *const comma = t->length > 0 ? ", " : "";
    char *const read = memory_allocate(MOST_BYTES + 1);
    struct tool_variable variable;
    int number = 0;

    if (read == NULL)
        return;
    if (mpi_t_text(index, read, MOST_BYTES + 1)) {
        if (text_of(name, read)[0] != '\0') {
            text_add(t, "%s\"%s\": ", comma, name);
            text_json(t, text_of(name, read), -1);
        }
    } else if (mpi_t_open_at(&variable, index, type)) {
        if (mpi_t_read(&variable, &number) && number != 0)
            text_add(t, "%s\"%s\": %d", comma, name, number);
        mpi_t_close(&variable);
    }
    memory_free(read);
}

/* Add `"name": value, ...`. Adds nothing if the library has no MPI_T or is not queried. version is
 * the library's version text. */
void library_setting_read(struct text *t, const char *version)
{
    if (!is_wanted(version) || !mpi_t_begin())
        return;
    for (int i = 0, count = mpi_t_count(); i < count; i++) {
        char name[NAME_BYTES];
        MPI_Datatype type;

        if (mpi_t_name(i, name, sizeof name, &type) && matches_any(name, relevant) &&
            !matches_any(name, irrelevant))
            value_add(t, i, name, type);
    }
#ifdef MPIPROF_ABI_openmpi
    mpi_t_end();
#endif
}

/* Add this node's location in the network according to Slurm (trace/network_topology.py). */
void library_setting_write_topology(struct text *t)
{
    const char *address = getenv("SLURM_TOPOLOGY_ADDR");
    const char *pattern = getenv("SLURM_TOPOLOGY_ADDR_PATTERN");

    if (address == NULL || pattern == NULL)
        return;
    text_add(t, ", \"switches\": {\"address\": ");
    text_json(t, address, -1);
    text_add(t, ", \"pattern\": ");
    text_json(t, pattern, -1);
    text_add(t, "}");
}

static bool is_thread_setting(const char *name, size_t length)
{
    static const char threads[] = "_NUM_THREADS";
    const size_t tail = sizeof threads - 1;

    return strncmp(name, "OMP_", 4) == 0 ||
           (length > tail && strncmp(name + length - tail, threads, tail) == 0);
}

/* Add the variables that set numbers and places of threads: OMP_* and *_NUM_THREADS. */
void library_setting_write_threads(struct text *t)
{
    int count = 0;

    text_add(t, ", \"environment\": {");
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        const size_t length = strcspn(*variable, "=");
        const char *const value = *variable + length + ((*variable)[length] == '=');
        const size_t shown = strnlen(value, MOST_VALUE);

        if (length > MOST_NAME || !is_thread_setting(*variable, length) || count == MOST_VARIABLES)
            continue;
        text_add(t, count++ > 0 ? ", " : "");
        text_json(t, *variable, (long)length);
        text_add(t, ": ");
        text_json(t, value, (long)shown);
    }
    text_add(t, "}");
}

/* Return the rank that the launcher assigned to this process, or -1 without a launcher. */
int library_setting_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const rank = getenv(names[i]);

        if (rank != NULL)
            return atoi(rank);
    }
    return -1;
}
