/* How the MPI library is set to choose its own algorithms, for meta.json: read through MPI_T, once,
 * by the process that writes it.
 *
 * Only of releases whose algorithms we can name: of others nothing would be made of it, and MPI_T may
 * be begun at any time, but no library is indifferent to it (no choice of ours depends on what is
 * read here, nor on the environment, which belongs to the launcher and the library):
 * - Open MPI sets the program's thread level to the one that MPI_T is begun with, so it is begun with
 *   the one there is; and it opens all its components, which takes 0.2 s where they are files. So it
 *   is asked only where its forced algorithms are switched on, in the environment, and ended at once.
 * - MPICH forgets its variables at the last MPI_T_finalize, although the library is in use (4.0 does
 *   not find them again). So MPI_T is ended when the library is.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/native.h"
#include "base/pmpi.h"
#include "base/predefined.h"
#include "base/text.h"
#include "trace/settings.h"

enum { NAME_BYTES = 256, MOST_BYTES = 1024 };

static struct {
    int (*init_thread)(int, int *);
    int (*finalize)(void);
    int (*cvar_get_num)(int *);
    int (*cvar_get_info)(int, char *, int *, int *, MPI_Datatype *, void **, char *, int *, int *,
                         int *);
    int (*cvar_handle_alloc)(int, void *, void **, int *);
    int (*cvar_handle_free)(void **);
    int (*cvar_read)(void *, void *);
} tool;
static bool begun;

static bool tool_load(void)
{
#define FIND(name) ((*(void **)&tool.name = native_symbol("PMPI_T_" #name)) != NULL)
    return FIND(init_thread) && FIND(finalize) && FIND(cvar_get_num) && FIND(cvar_get_info) &&
           FIND(cvar_handle_alloc) && FIND(cvar_handle_free) && FIND(cvar_read);
#undef FIND
}

static bool has(const char *name, const char *const *parts)
{
    for (; *parts != NULL; parts++)
        if (strstr(name, *parts) != NULL)
            return true;
    return false;
}

enum { LEAST_MAJOR = 5 };

#ifdef MPIPROF_ABI_openmpi
static bool is_wanted(const char *version)
{
    int major = 0;

    return sscanf(version, "Open MPI v%d", &major) == 1 && major >= LEAST_MAJOR &&
           getenv("OMPI_MCA_coll_tuned_use_dynamic_rules") != NULL && pmpi.Query_thread != NULL;
}

static int level_wanted(void)
{
    int level = MPI_THREAD_MULTIPLE;

    pmpi.Query_thread(&level);
    return level;
}

static bool ends(const char *name, const char *end)
{
    const size_t length = strlen(name), part = strlen(end);

    return length > part && strcmp(name + length - part, end) == 0;
}

/* Whether a variable has to do with who runs a blocking collective, and how. */
static bool tells(const char *name)
{
    static const char *const parts[] = {"coll_tuned_use_dynamic_rules", "coll_tuned_dynamic_rules_",
                                        "coll_sync_barrier_", NULL};

    return strcmp(name, "coll") == 0 || has(name, parts) ||
           (strncmp(name, "coll_", 5) == 0 &&
            (ends(name, "_priority") || ends(name, "_algorithm") || ends(name, "_segmentsize")));
}
#else
static bool is_wanted(const char *version)
{
    int major = 0;

    return sscanf(version, "MPICH Version: %d", &major) == 1 && major >= LEAST_MAJOR;
}

static int level_wanted(void)
{
    return MPI_THREAD_MULTIPLE;
}

static bool tells(const char *name)
{
    static const char *const parts[] = {"_INTRA_ALGORITHM",
                                        "_COMPOSITION",
                                        "_COLLECTIVES",
                                        "_TUNING_JSON_FILE",
                                        "_NOLOCAL",
                                        "_CLIQUES",
                                        "_UCC_ENABLE",
                                        "_ENABLE_UCC",
                                        "_HCOLL",
                                        "_CH4_NETMOD",
                                        NULL};
    static const char *const others[] = {"_CVAR_I", "_NEIGHBOR_", NULL};

    return strncmp(name, "MPIR_CVAR_", 10) == 0 && has(name, parts) && !has(name, others);
}
#endif

/* A variable of text as it is set; MPICH's own MPI_T_cvar_read gives an empty one for all. */
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

int settings_on_node(void)
{
#ifdef MPIPROF_ABI_openmpi
    const char *const local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
#else
    const char *const local = getenv("MPI_LOCALNRANKS"); /* Hydra's */
#endif
    return local != NULL ? atoi(local) : 0;
}

/* Adds a variable's value where it is neither 0 nor empty. */
static void value_add(struct text *t, int index, const char *name, MPI_Datatype type)
{
    const struct predefined_type *const known = predefined_type(type);
    union {
        char text[MOST_BYTES + 1];
        int number;
        unsigned char flag;
    } value = {{0}};
    const char *const kind = known != NULL ? known->name : "";
    const char *const comma = t->length > 0 ? ", " : "";
    void *handle = NULL;
    int count = 0;

    if (tool.cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return;
    const bool fits = count == 1 || (strcmp(kind, "MPI_CHAR") == 0 && count <= MOST_BYTES);

    if (fits && count > 0 && tool.cvar_read(handle, &value) == MPI_SUCCESS) {
        const bool is_flag = strcmp(kind, "MPI_C_BOOL") == 0;
        const int number = is_flag ? value.flag : value.number;

        if (strcmp(kind, "MPI_CHAR") == 0 && text_of(name, value.text)[0] != '\0') {
            text_add(t, "%s\"%s\": ", comma, name);
            text_json(t, text_of(name, value.text), -1);
        } else if (number != 0 &&
                   (is_flag || strcmp(kind, "MPI_INT") == 0 || strcmp(kind, "MPI_UNSIGNED") == 0)) {
            text_add(t, "%s\"%s\": %d", comma, name, number);
        }
    }
    tool.cvar_handle_free(&handle);
}

/* Adds `"name": value, ...`; nothing where the library has no MPI_T, or need not be asked. version:
 * what it says of itself. */
void settings_read(struct text *t, const char *version)
{
    int provided, count = 0;

    if (begun || !is_wanted(version) || !tool_load() ||
        tool.init_thread(level_wanted(), &provided) != MPI_SUCCESS)
        return;
    begun = true;
    tool.cvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char name[NAME_BYTES] = "", description[2] = "";
        int length = sizeof name, room = sizeof description, verbosity, bind, scope;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        void *values = NULL;

        if (tool.cvar_get_info(i, name, &length, &verbosity, &type, &values, description, &room,
                               &bind, &scope) == MPI_SUCCESS &&
            tells(name))
            value_add(t, i, name, type);
    }
#ifdef MPIPROF_ABI_openmpi
    settings_end();
#endif
}

/* After MPI_Finalize. */
void settings_end(void)
{
    if (begun)
        tool.finalize();
    begun = false;
}
