/* The library's control variables that name its algorithms, written through MPI_T.
 *
 *      MPICH       MPIR_CVAR_<OPERATION>_INTRA_ALGORITHM, looked at in each call, with
 *                  MPIR_CVAR_<OPERATION>_DEVICE_COLLECTIVE 0: else the device above these
 *                  algorithms divides some operations by nodes, or does them in shared memory
 *      Open MPI    coll_tuned_<operation>_algorithm and its _segmentsize, looked at when a
 *                  communicator is made, with coll_tuned_use_dynamic_rules 1, and
 *                  coll_tuned_priority above all others: else `han` takes several nodes
 *
 * They hold for the whole process, and are the program's: what is put is set back (setting_back)
 * before anything of the program's runs; where a call has been left for good, when the next one
 * begins. A variable that the program has written itself is left alone; all members see that
 * alike, as it must write it on all processes. Only releases are asked whose algorithms were tried.
 *
 * Threads: MPICH's are put only where no two threads call MPI at once, Open MPI's while no other
 * thread makes a communicator (making.c). Nothing is held for longer than the process.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/native.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "base/tool.h"
#include "run/setting.h"
#include "trace/meta.h"

enum { NAME_BYTES = 100 };

static const struct own_algorithm own[] = {
#define OWN(operation, name, number, needs, segmented, like)                                       \
    {OP_##operation, name, number, needs, segmented, like, "native:" name},
    OWN_ALGORITHMS(OWN)
#undef OWN
};
enum { OWN_COUNT = sizeof own / sizeof *own };

struct variable { /* one of the library's, and what it is when nothing is put */
    struct tool_variable at;
    int before;
    bool there;
};
/* MPICH: the algorithm, and the device's part. Open MPI: the algorithm, and its segments. */
enum { ALGORITHM, OTHER, PARTS };
static struct variable variables[OP_COUNT][PARTS];
static enum obstacle obstacle = OBSTACLE_NOT_ASKED;
enum { MOST_PUT = 32 };
static struct variable *written[MOST_PUT]; /* in this order, to be set back */
static int written_count;

/* ---- one variable */

/* One that can't be written is none. */
static void find(struct variable *v, const char *name)
{
    if (!tool_open(&v->at, name))
        return;
    v->there = tool_read(&v->at, &v->before) && tool_write(&v->at, v->before);
    if (!v->there)
        tool_close(&v->at);
}

/* False: it is not what it was, or can't be written. */
static bool put(struct variable *v, int value)
{
    int now;

    if (!v->there || written_count == MOST_PUT || !tool_read(&v->at, &now) || now != v->before)
        return false;
    written[written_count++] = v;
    return tool_write(&v->at, value);
}

void setting_back(void)
{
    while (written_count > 0) {
        struct variable *const v = written[--written_count];

        tool_write(&v->at, v->before);
    }
}

/* ---- start */

/* `MPIR_CVAR_REDUCE_SCATTER_INTRA_ALGORITHM` of reduce_scatter. */
static void find_named(struct variable *v, const char *head, int operation, const char *tail)
{
    char name[NAME_BYTES];
    const size_t from = strlen(head);

    snprintf(name, sizeof name, "%s%s%s", head, operation_names[operation], tail);
#ifndef MPIPROF_ABI_openmpi
    for (char *c = name + from; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
#else
    (void)from;
#endif
    find(v, name);
}

#ifdef MPIPROF_ABI_openmpi
enum { HIGHEST = 100 }; /* a component's priority */
static struct variable rules, priority;

static bool is_known(const char *version)
{
    return strncmp(version, "Open MPI v5.0.", 14) == 0;
}

static enum obstacle find_all(void)
{
    find(&rules, "coll_tuned_use_dynamic_rules");
    find(&priority, "coll_tuned_priority");
    for (int i = 0; i < OWN_COUNT; i++) {
        struct variable *const v = variables[own[i].operation];

        if (!v[ALGORITHM].there)
            find_named(&v[ALGORITHM], "coll_tuned_", own[i].operation, "_algorithm");
        if (!v[OTHER].there)
            find_named(&v[OTHER], "coll_tuned_", own[i].operation, "_algorithm_segmentsize");
    }
    return rules.there && priority.there ? OBSTACLE_NONE : OBSTACLE_INTERFACE;
}
#else
enum { FALLBACK_ERROR = 0, DEVICE_BY_OPERATION = 2 };

static bool is_known(const char *version)
{
    int minor = -1;

    return sscanf(version, "MPICH Version: 5.%d", &minor) == 1 && minor == 0;
}

/* A number that no one has set to what it should not be. */
static bool is_set(const char *name, bool equal, int value)
{
    struct variable v = {0};

    find(&v, name);
    tool_close(&v.at);
    return v.there && (v.before == value) == equal;
}

static enum obstacle find_all(void)
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
    for (int i = 0; i < OWN_COUNT; i++) {
        struct variable *const v = variables[own[i].operation];

        if (v[ALGORITHM].there)
            continue;
        find_named(&v[ALGORITHM], "MPIR_CVAR_", own[i].operation, "_INTRA_ALGORITHM");
        find_named(&v[OTHER], "MPIR_CVAR_", own[i].operation, "_DEVICE_COLLECTIVE");
        v[ALGORITHM].there &= v[OTHER].there;
    }
    return OBSTACLE_NONE;
}
#endif

/* Somebody wants to name algorithms. */
void setting_start(void)
{
    if (obstacle != OBSTACLE_NOT_ASKED)
        return;
    obstacle = is_known(meta_library()) && tool_begin() ? find_all() : OBSTACLE_INTERFACE;
}

/* Of this process; what its communicators can do is agreed (private.c). */
enum obstacle setting_obstacle(void)
{
    return obstacle;
}

/* In MPI_Finalize. */
void setting_end(void)
{
    setting_back();
    for (int i = 0; i < OP_COUNT; i++)
        for (int part = 0; part < PARTS; part++)
            tool_close(&variables[i][part].at);
#ifdef MPIPROF_ABI_openmpi
    tool_close(&rules.at);
    tool_close(&priority.at);
    tool_end(); /* after MPI_Finalize it would close a second time what that has closed */
#endif
    obstacle = OBSTACLE_NOT_ASKED;
}

/* ---- the library's algorithms */

int setting_own_count(void)
{
    return OWN_COUNT;
}

const struct own_algorithm *setting_own_at(int index)
{
    return &own[index];
}

/* By the library's name of it, or its number; NULL: it has none such. */
const struct own_algorithm *setting_own(const char *operation, const char *name)
{
    char number[16];

    for (int i = 0; i < OWN_COUNT; i++) {
        snprintf(number, sizeof number, "%d", own[i].number);
        if (strcmp(operation_names[own[i].operation], operation) == 0 &&
            (strcmp(own[i].name, name) == 0 || strcmp(number, name) == 0))
            return &own[i];
    }
    return NULL;
}

/* Whether the library can be told the algorithm of an operation, and the size of its segments. */
bool setting_has(int operation, bool segment)
{
#ifdef MPIPROF_ABI_openmpi
    return variables[operation][ALGORITHM].there && (!segment || variables[operation][OTHER].there);
#else
    return variables[operation][ALGORITHM].there && !segment;
#endif
}

/* What setting_has says, as one number: members must agree on it. */
int64_t setting_facts(void)
{
    uint64_t facts = 0;

    for (int i = 0; i < OP_COUNT; i++)
        facts = hash_mix(facts, (uint64_t)(2 * setting_has(i, true) + setting_has(i, false)));
    return (int64_t)(facts >> 1);
}

/* ---- writing */

#ifdef MPIPROF_ABI_openmpi
/* For the communicators that are made from here on: of each operation that has so many, the
 * algorithm of this number. */
bool setting_put_all(int number, int64_t segment)
{
    bool done = put(&rules, 1) && put(&priority, HIGHEST);

    for (int i = 0; done && i < OWN_COUNT; i++) {
        struct variable *const v = variables[own[i].operation];

        if (own[i].number != number || !v[ALGORITHM].there)
            continue;
        done = put(&v[ALGORITHM], number) && (!v[OTHER].there || put(&v[OTHER], (int)segment));
    }
    if (!done)
        setting_back();
    return done;
}
#else
/* For the calls of an operation from here on. */
bool setting_put(int operation, int number)
{
    struct variable *const v = variables[operation];
    const bool done = put(&v[ALGORITHM], number) && put(&v[OTHER], 0);

    if (!done)
        setting_back();
    return done;
}
#endif
