/* The library's control variables that select its algorithms, written through MPI_T.
 *
 *   MPICH       MPIR_CVAR_<OPERATION>_INTRA_ALGORITHM, read in each call, with
 *               MPIR_CVAR_<OPERATION>_DEVICE_COLLECTIVE 0. Otherwise the device layer above may
 *               divide an operation by nodes or use shared memory.
 *   Open MPI    coll_tuned_<operation>_algorithm and its _segmentsize, read when a communicator
 *               is created, with coll_tuned_use_dynamic_rules 1 and coll_tuned_priority above all
 *               others. Otherwise `han` handles communicators over several nodes.
 *
 * The variables apply to the whole process and belong to the program. So they are restored before
 * any code of the program runs, or when the next call begins, if longjmp or an exception left the
 * call. A variable that the program has written itself is not changed. All members detect this
 * equally, because the program must write it on all processes. Only releases with tested algorithms
 * are supported.
 *
 * Threads: MPICH's variables are written only if no two threads call MPI at once, Open MPI's while
 * no other thread creates a communicator (comm_create_lock.c).
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/mpi_t.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "executor/library_algorithm.h"
#include "tracefile/tracefile.h"

enum { NAME_BYTES = 100 };

const struct library_algorithm mpi_t_algorithms[] = {
#define OWN(operation, name, number, needs, segmented, like)                                       \
    {OP_##operation, name, number, needs, segmented, like, "native:" name},
    OWN_ALGORITHMS(OWN)
#undef OWN
};
const int mpi_t_algorithm_count = sizeof mpi_t_algorithms / sizeof *mpi_t_algorithms;

struct variable { /* a variable of the library, and its value without a request */
    struct tool_variable at;
    int before;
    bool there;
};
/* MPICH: the algorithm, and the device layer. Open MPI: the algorithm, and its segment size. */
enum { ALGORITHM, OTHER, PARTS };
static SPARSE struct variable variables[OP_COUNT][PARTS];
static enum obstacle obstacle = OBSTACLE_NOT_ASKED;
enum { MOST_PUT = 32 };
static struct variable *written[MOST_PUT]; /* in order of writing, to be restored in reverse */
static int written_count;

/* ---- one variable */

/* Open a variable; one that is not writable counts as missing. */
static void variable_open(struct variable *v, const char *name)
{
    if (!mpi_t_open(&v->at, name))
        return;
    v->there = mpi_t_read(&v->at, &v->before) && mpi_t_write(&v->at, v->before);
    if (!v->there)
        mpi_t_close(&v->at);
}

/* Write a variable. Returns false if the program has changed it, or if it is not writable. */
static bool variable_write(struct variable *v, int value)
{
    int now;

    if (!v->there || written_count == MOST_PUT || !mpi_t_read(&v->at, &now) || now != v->before)
        return false;
    written[written_count++] = v;
    return mpi_t_write(&v->at, value);
}

void mpi_t_algorithm_restore(void)
{
    while (written_count > 0) {
        struct variable *const v = written[--written_count];

        mpi_t_write(&v->at, v->before);
    }
}

/* ---- start */

#ifdef MPIPROF_ABI_openmpi
enum { HIGHEST = 100 }; /* highest priority of a component */
static struct variable rules, priority;
static const char prefix[] = "coll_tuned_";
static const char *const suffixes[PARTS] = {"_algorithm", "_algorithm_segmentsize"};

static bool is_known(const char *version)
{
    return strncmp(version, "Open MPI v5.0.", 14) == 0;
}

static enum obstacle obstacle_find(void)
{
    variable_open(&rules, "coll_tuned_use_dynamic_rules");
    variable_open(&priority, "coll_tuned_priority");
    return rules.there && priority.there ? OBSTACLE_NONE : OBSTACLE_INTERFACE;
}
#else
enum { FALLBACK_ERROR = 0, DEVICE_BY_OPERATION = 2 };
static const char prefix[] = "MPIR_CVAR_";
static const char *const suffixes[PARTS] = {"_INTRA_ALGORITHM", "_DEVICE_COLLECTIVE"};

static bool is_known(const char *version)
{
    int minor = -1;

    return sscanf(version, "MPICH Version: 5.%d", &minor) == 1 && minor == 0;
}

/* Return true if the variable exists, and equals `value` or not as `equal` demands. */
static bool is_set(const char *name, bool equal, int value)
{
    struct variable v = {0};

    variable_open(&v, name);
    mpi_t_close(&v.at);
    return v.there && (v.before == value) == equal;
}

static enum obstacle obstacle_find(void)
{
    int level = MPI_THREAD_MULTIPLE, initialised = 0;

    pmpi.Initialized(&initialised);
    if (!initialised || pmpi.Query_thread == NULL)
        return OBSTACLE_SESSIONS;
    if (pmpi.Query_thread(&level) != MPI_SUCCESS || level == MPI_THREAD_MULTIPLE)
        return OBSTACLE_THREADS;
    if (!is_set("MPIR_CVAR_COLLECTIVE_FALLBACK", false, FALLBACK_ERROR) ||
        !is_set("MPIR_CVAR_DEVICE_COLLECTIVES", true, DEVICE_BY_OPERATION))
        return OBSTACLE_SETTINGS;
    return OBSTACLE_NONE;
}
#endif

/* Open the variables of an operation: `MPIR_CVAR_REDUCE_SCATTER_INTRA_ALGORITHM`, for example. */
static void variables_open(int operation)
{
    struct variable *const v = variables[operation];
    char name[NAME_BYTES];

    for (int part = 0; part < PARTS; part++) {
        snprintf(name, sizeof name, "%s%s%s", prefix, operation_names[operation], suffixes[part]);
        for (char *c = name + strlen(prefix); !ALGORITHM_NEEDS_COMM && *c != '\0'; c++)
            *c = (char)toupper((unsigned char)*c);
        if (!v[part].there)
            variable_open(&v[part], name);
    }
    if (!ALGORITHM_NEEDS_COMM)
        v[ALGORITHM].there &= v[OTHER].there;
}

/* Prepare the variables on the first request. */
void mpi_t_algorithm_start(void)
{
    if (obstacle != OBSTACLE_NOT_ASKED)
        return;
    obstacle = is_known(meta_library()) && mpi_t_begin() ? obstacle_find() : OBSTACLE_INTERFACE;
    for (int i = 0; i < mpi_t_algorithm_count && obstacle == OBSTACLE_NONE; i++)
        if (!variables[mpi_t_algorithms[i].operation][ALGORITHM].there)
            variables_open(mpi_t_algorithms[i].operation);
}

/* Return this process's obstacle. Members agree on it for each communicator (private_comm.c). */
enum obstacle mpi_t_algorithm_obstacle(void)
{
    return obstacle;
}

void mpi_t_algorithm_end(void)
{
    mpi_t_algorithm_restore();
    for (int i = 0; i < OP_COUNT; i++)
        for (int part = 0; part < PARTS; part++)
            mpi_t_close(&variables[i][part].at);
#ifdef MPIPROF_ABI_openmpi
    mpi_t_close(&rules.at);
    mpi_t_close(&priority.at);
    mpi_t_end(); /* after MPI_Finalize this would close twice what MPI_Finalize has closed */
#endif
    obstacle = OBSTACLE_NOT_ASKED;
}

/* ---- the library's algorithms */

/* Find an algorithm by the library's name or number, or return NULL. */
const struct library_algorithm *mpi_t_algorithm_find(const char *operation, const char *name)
{
    char number[16];

    for (int i = 0; i < mpi_t_algorithm_count; i++) {
        snprintf(number, sizeof number, "%d", mpi_t_algorithms[i].number);
        if (strcmp(operation_names[mpi_t_algorithms[i].operation], operation) == 0 &&
            (strcmp(mpi_t_algorithms[i].name, name) == 0 || strcmp(number, name) == 0))
            return &mpi_t_algorithms[i];
    }
    return NULL;
}

/* Return true if an operation's algorithm, and its segment size, can be selected. */
bool mpi_t_algorithm_has(int operation, bool segment)
{
    return variables[operation][ALGORITHM].there &&
           (!segment || (ALGORITHM_NEEDS_COMM && variables[operation][OTHER].there));
}

/* Return a hash of mpi_t_algorithm_has for all operations. */
int64_t mpi_t_algorithm_facts(void)
{
    uint64_t facts = 0;

    for (int i = 0; i < OP_COUNT; i++)
        facts = hash_mix(
            facts, (uint64_t)(2 * mpi_t_algorithm_has(i, true) + mpi_t_algorithm_has(i, false)));
    return (int64_t)(facts >> 1);
}

/* ---- writes */

#ifdef MPIPROF_ABI_openmpi
/* Select the algorithm of this number in all operations, for communicators created from now on. */
bool mpi_t_algorithm_set_all(int number, int64_t segment)
{
    bool done = variable_write(&rules, 1) && variable_write(&priority, HIGHEST);

    for (int i = 0; done && i < mpi_t_algorithm_count; i++) {
        struct variable *const v = variables[mpi_t_algorithms[i].operation];

        if (mpi_t_algorithms[i].number != number || !v[ALGORITHM].there)
            continue;
        done = variable_write(&v[ALGORITHM], number) &&
               (!v[OTHER].there || variable_write(&v[OTHER], (int)segment));
    }
    if (!done)
        mpi_t_algorithm_restore();
    return done;
}
#else
/* Select an algorithm for the calls of an operation from now on. */
bool mpi_t_algorithm_set(int operation, int number)
{
    struct variable *const v = variables[operation];
    const bool done = variable_write(&v[ALGORITHM], number) && variable_write(&v[OTHER], 0);

    if (!done)
        mpi_t_algorithm_restore();
    return done;
}
#endif
