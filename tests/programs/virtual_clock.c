/* A test shim, preloaded behind mpiprof's library: gives every rank a clock with known values.
 *
 *      program -> mpiprof's library -> this shim -> the MPI library
 *                        |
 *                        +-- clock_gettime -> this shim
 *
 * mpiprof finds the native functions with dlsym(RTLD_NEXT), which returns this shim's. A call of
 * clock_gettime from mpiprof's library (by its return address) reads the rank's virtual clock. MPI
 * and the program read the real clock.
 *
 * VIRTUAL_CLOCK=virtual: the clock advances only in virtual_advance() and in collectives. A
 * collective does the real operation, exchanges the members' virtual arrivals on a private
 * communicator, and sets the clock to the exit that the operation's semantics permit this rank.
 * VIRTUAL_CLOCK=real: the real clock; collectives are forwarded.
 * VIRTUAL_NODES=offset:ppb,offset:ppb,...: rank r is on emulated node r modulo their number (as in
 * MPIPROF_NODE). The node's clock has an offset in ns, and gains ppb ns per second.
 * VIRTUAL_BASE=ns: the time from which clocks drift, and at which virtual clocks start.
 *
 * Threads: one per rank. Communicators are registered with virtual_communicator().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collectives.h"

enum { COST_NS = 700, STAGGER_NS = 13, CALL_NS = 50, MOST = 64 };

/* ---- the clock */

static int (*real_gettime)(clockid_t, struct timespec *);
static uintptr_t own_low, own_high; /* mpiprof's library */
static bool is_virtual, is_active;
static int64_t now, base, node_offset, node_ppb;
static int world_rank;

static int find_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (strstr(info->dlpi_name, "libmpiprof-") == NULL)
        return 0;
    own_low = own_high = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t end =
            info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;

        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > own_high)
            own_high = end;
    }
    return 1;
}

static void choose_node(const char *list)
{
    int nodes = 1;
    char name[32];

    for (const char *s = list; *s != '\0'; s++)
        nodes += *s == ',';
    for (int i = 0; i < world_rank % nodes; i++)
        list = strchr(list, ',') + 1;
    sscanf(list, "%ld:%ld", &node_offset, &node_ppb);
    snprintf(name, sizeof name, "node %d", world_rank % nodes);
    setenv("MPIPROF_NODE", name, 1);
}

__attribute__((constructor)) static void start(void)
{
    const char *const mode = getenv("VIRTUAL_CLOCK"), *const nodes = getenv("VIRTUAL_NODES");
    const char *const from = getenv("VIRTUAL_BASE"), *rank = getenv("OMPI_COMM_WORLD_RANK");

    *(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    rank = rank != NULL ? rank : getenv("PMI_RANK");
    world_rank = rank != NULL ? atoi(rank) : 0;
    dl_iterate_phdr(find_library, NULL);
    now = base = from != NULL ? atoll(from) : 0;
    if (nodes != NULL)
        choose_node(nodes);
    is_virtual = mode != NULL && strcmp(mode, "virtual") == 0;
    is_active = mode != NULL;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    const int error =
        real_gettime != NULL ? real_gettime(clock, t) : (int)syscall(SYS_clock_gettime, clock, t);

    if (!is_active || clock != CLOCK_MONOTONIC || caller < own_low || caller >= own_high)
        return error;
    const int64_t true_ns = is_virtual ? now : t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
    const int64_t ns = true_ns + node_offset + (true_ns - base) * node_ppb / 1000000000;

    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return error;
}

/* ---- communicators */

struct group {
    MPI_Comm comm, private; /* of both groups of an inter-communicator, side 0 first */
    int rank, size, side, count, sources[MOST];
    bool inter;
};
static struct group groups[MOST];
static int group_count;

static struct group *group_of(MPI_Comm comm)
{
    for (int i = 0; is_virtual && i < group_count; i++)
        if (groups[i].comm == comm)
            return &groups[i];
    return NULL;
}

/* The program makes a communicator known; all its members call it. `side` is 0 or 1 for the two
 * groups of an inter-communicator. */
void virtual_communicator(MPI_Comm comm, int side)
{
    struct group *const g = &groups[group_count++];
    int inter, topology, outdegree, weighted, rank, destinations[MOST], weights[2 * MOST];

    *g = (struct group){.comm = comm, .side = side};
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_rank(comm, &rank);
    g->inter = inter != 0;
    if (inter)
        PMPI_Intercomm_merge(comm, side, &g->private);
    else
        PMPI_Comm_split(comm, 0, rank, &g->private);
    PMPI_Comm_rank(g->private, &g->rank);
    PMPI_Comm_size(g->private, &g->size);
    topology = MPI_UNDEFINED;
    if (!inter)
        PMPI_Topo_test(comm, &topology);
    if (topology == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, &g->count, &outdegree, &weighted);
        PMPI_Dist_graph_neighbors(comm, g->count, g->sources, weights, outdegree, destinations,
                                  weights + MOST);
    }
}

/* Imposes a delay on this rank. */
void virtual_advance(int64_t ns)
{
    now += ns;
}

/* Sets the clocks of all ranks to that of the latest. */
void virtual_align(void)
{
    if (is_virtual)
        PMPI_Allreduce(MPI_IN_PLACE, &now, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
}

/* ---- operations */

enum kind { ALL, FROM_ROOT, TO_ROOT, PREFIX, SOURCES }; /* ranks that a rank waits for */

struct arrival {
    int64_t at, side, is_root, is_idle;
};
struct operation {
    struct group *group;
    enum kind kind;
    struct arrival mine, all[MOST];
    MPI_Request handle, exchange;
    bool used, persistent;
};
static struct operation operations[MOST];

static struct operation operation_of(struct group *g, enum kind kind, int root)
{
    const bool is_root = g->inter ? root == MPI_ROOT : root == g->rank;

    return (struct operation){.group = g,
                              .kind = kind,
                              .mine = {now, g->side, is_root, g->inter && root == MPI_PROC_NULL}};
}

static bool waits_for(const struct operation *o, int i)
{
    const struct arrival *const a = &o->all[i], *const mine = &o->mine;
    const bool reached = !o->group->inter || a->side != mine->side;

    switch (o->kind) {
    case ALL: return reached;
    case FROM_ROOT: return a->is_root && !mine->is_idle;
    case TO_ROOT: return mine->is_root && reached;
    case PREFIX: return i < o->group->rank;
    default: break;
    }
    for (int k = 0; k < o->group->count; k++)
        if (o->group->sources[k] == i)
            return true;
    return false;
}

/* When the operation lets this rank go. */
static int64_t release(const struct operation *o)
{
    int64_t t = o->mine.at;

    for (int i = 0; i < o->group->size; i++)
        if (waits_for(o, i) && o->all[i].at > t)
            t = o->all[i].at;
    return t + COST_NS + STAGGER_NS * world_rank;
}

static int blocking(int error, MPI_Comm comm, enum kind kind, int root)
{
    struct group *const g = group_of(comm);

    if (g == NULL)
        return error;
    struct operation o = operation_of(g, kind, root);

    PMPI_Allgather(&o.mine, sizeof o.mine, MPI_BYTE, o.all, sizeof o.mine, MPI_BYTE, g->private);
    now = release(&o);
    return error;
}

static void exchange_start(struct operation *o)
{
    PMPI_Iallgather(&o->mine, sizeof o->mine, MPI_BYTE, o->all, sizeof o->mine, MPI_BYTE,
                    o->group->private, &o->exchange);
}

static int starting(int error, MPI_Comm comm, enum kind kind, int root, MPI_Request handle,
                    bool persistent)
{
    struct group *const g = group_of(comm);
    struct operation *o = operations;

    if (g == NULL)
        return error;
    while (o->used)
        o++;
    *o = operation_of(g, kind, root);
    o->used = true;
    o->handle = handle;
    o->persistent = persistent;
    if (!persistent)
        exchange_start(o);
    now += CALL_NS;
    return error;
}

static struct operation *operation_find(MPI_Request handle)
{
    for (int i = 0; i < MOST; i++)
        if (operations[i].used && operations[i].handle == handle)
            return &operations[i];
    return NULL;
}

static void restart(struct operation *o)
{
    if (o == NULL)
        return;
    o->mine.at = now;
    exchange_start(o);
}

int MPI_Start(MPI_Request *request)
{
    restart(operation_find(*request));
    now += CALL_NS;
    return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[])
{
    for (int i = 0; i < count; i++)
        restart(operation_find(requests[i]));
    now += CALL_NS;
    return PMPI_Startall(count, requests);
}

static void complete(struct operation *o)
{
    if (o == NULL)
        return;
    PMPI_Wait(&o->exchange, MPI_STATUS_IGNORE);
    const int64_t done = release(o);

    now = done > now ? done : now;
    o->used = o->persistent;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    struct operation *const o = operation_find(*request);
    const int error = PMPI_Wait(request, status);

    complete(o);
    return error;
}

/* True from the moment on at which a Wait would have returned. */
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct operation *const o = operation_find(*request);

    if (o == NULL)
        return PMPI_Test(request, flag, status);
    PMPI_Wait(&o->exchange, MPI_STATUS_IGNORE);
    *flag = now >= release(o);
    if (!*flag)
        return MPI_SUCCESS;
    complete(o);
    return PMPI_Wait(request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
    struct operation *found[MOST];

    for (int i = 0; i < count; i++)
        found[i] = operation_find(requests[i]);
    const int error = PMPI_Waitall(count, requests, statuses);

    for (int i = 0; i < count; i++)
        complete(found[i]);
    return error;
}

int MPI_Request_free(MPI_Request *request)
{
    struct operation *const o = operation_find(*request);

    if (o != NULL)
        o->used = false;
    return PMPI_Request_free(request);
}

#define SHIM(name, iname, kind, root, parameters, arguments)                                       \
    int MPI_##name(parameters MPI_Comm comm)                                                       \
    {                                                                                              \
        return blocking(PMPI_##name(arguments comm), comm, kind, root);                            \
    }                                                                                              \
    int MPI_##iname(parameters MPI_Comm comm, MPI_Request *request)                                \
    {                                                                                              \
        const int error = PMPI_##iname(arguments comm, request);                                   \
        return starting(error, comm, kind, root, *request, false);                                 \
    }                                                                                              \
    int MPI_##name##_init(parameters MPI_Comm comm, MPI_Info info, MPI_Request *request)           \
    {                                                                                              \
        const int error = PMPI_##name##_init(arguments comm, info, request);                       \
        return starting(error, comm, kind, root, *request, true);                                  \
    }
COLLECTIVES(SHIM)
