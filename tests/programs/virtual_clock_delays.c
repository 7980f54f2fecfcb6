/* Runs the collectives of a plan, with the delays that it imposes on each rank.
 *
 *     virtual_clock_delays PLAN
 *
 * A line of the plan: operation, form (b blocking, n nonblocking with Wait, t nonblocking with a
 * Test every STEP_NS, p persistent: started twice), communicator (w world, r the same ranks in
 * reverse order, i the inter-communicator of even and odd ranks, g a graph), root, a delay for each
 * rank before the call, and one before the Wait. The second start of a persistent operation gives
 * each rank the next rank's delays. The operation "pair" is an Iallreduce and an Ibcast, or their
 * persistent forms with Startall, which one Waitall completes. Delays are passed to the shim
 * virtual_clock.c, which is required.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32, GAP = 40, COUNT = 3, STEP_NS = 10000 };

static void (*virtual_communicator)(MPI_Comm, int);
static void (*virtual_advance)(int64_t);
static void (*virtual_align)(void);
static int rank, size;

struct neighbours {
    int in, out, sources[MOST], destinations[MOST];
};
static struct neighbours graph;
static MPI_Comm world, reversed, inter, graph_comm;

/* Rank r receives from r + 1, and if it is even also from r + 2. */
static int receives(int r, int from)
{
    return from == (r + 1) % size || (r % 2 == 0 && from == (r + 2) % size);
}

static void make_communicators(void)
{
    MPI_Comm half;

    world = MPI_COMM_WORLD;
    MPI_Comm_split(world, 0, -rank, &reversed);
    MPI_Comm_split(world, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, world, 1 - rank % 2, 7, &inter);
    MPI_Comm_free(&half);
    for (int other = 0; other < size; other++) {
        if (receives(rank, other))
            graph.sources[graph.in++] = other;
        if (receives(other, rank))
            graph.destinations[graph.out++] = other;
    }
    MPI_Dist_graph_create_adjacent(world, graph.in, graph.sources, MPI_UNWEIGHTED, graph.out,
                                   graph.destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &graph_comm);
    MPI_Comm_set_name(reversed, "r");
    MPI_Comm_set_name(inter, "i");
    MPI_Comm_set_name(graph_comm, "g");
    virtual_communicator(world, 0);
    virtual_communicator(reversed, 0);
    virtual_communicator(inter, rank % 2);
    virtual_communicator(graph_comm, 0);
}

/* ---- one operation */

static int in[MOST * GAP], out[MOST * GAP];
static int shares[MOST], gaps[MOST], exchanged[MOST], to[MOST], from[MOST], heard[MOST],
    bytes[MOST];
static MPI_Aint addresses[MOST];
static MPI_Datatype types[MOST];

/* Rank r contributes r + 1 elements to a v-form; a pair exchanges 1 or 2. */
static int describe(MPI_Comm comm)
{
    int me;

    MPI_Comm_rank(comm, &me);
    for (int i = 0; i < MOST; i++) {
        shares[i] = i + 1;
        gaps[i] = GAP * i;
        bytes[i] = 4 * gaps[i];
        addresses[i] = bytes[i];
        types[i] = MPI_INT;
        exchanged[i] = 1 + (me + i) % 2;
        to[i] = 1 + (me + graph.destinations[i]) % 2;
        from[i] = 1 + (me + graph.sources[i]) % 2;
        heard[i] = graph.sources[i] + 1;
    }
    return me;
}

#define CASE(name, Name, Iname, ...)                                                               \
    if (strcmp(operation, name) == 0) {                                                            \
        if (form == 'b')                                                                           \
            MPI_##Name(__VA_ARGS__ comm);                                                          \
        else if (form != 'p')                                                                      \
            MPI_##Iname(__VA_ARGS__ comm, request);                                                \
        else                                                                                       \
            MPI_##Name##_init(__VA_ARGS__ comm, MPI_INFO_NULL, request);                           \
        return;                                                                                    \
    }
#define EVEN in, COUNT, MPI_INT, out, COUNT, MPI_INT
#define REDUCED in, out, COUNT, MPI_INT, MPI_SUM

static void call(const char *operation, char form, MPI_Comm comm, int root, MPI_Request *request)
{
    const int mine = describe(comm) + 1;

    CASE("allgather", Allgather, Iallgather, EVEN, )
    CASE("allgatherv", Allgatherv, Iallgatherv, in, mine, MPI_INT, out, shares, gaps, MPI_INT, )
    CASE("allreduce", Allreduce, Iallreduce, REDUCED, )
    CASE("alltoall", Alltoall, Ialltoall, EVEN, )
    CASE("alltoallv", Alltoallv, Ialltoallv, in, exchanged, gaps, MPI_INT, out, exchanged, gaps,
         MPI_INT, )
    CASE("alltoallw", Alltoallw, Ialltoallw, in, exchanged, bytes, types, out, exchanged, bytes,
         types, )
    CASE("barrier", Barrier, Ibarrier, )
    CASE("bcast", Bcast, Ibcast, in, COUNT, MPI_INT, root, )
    CASE("exscan", Exscan, Iexscan, REDUCED, )
    CASE("gather", Gather, Igather, EVEN, root, )
    CASE("gatherv", Gatherv, Igatherv, in, mine, MPI_INT, out, shares, gaps, MPI_INT, root, )
    CASE("reduce", Reduce, Ireduce, REDUCED, root, )
    CASE("reduce_scatter", Reduce_scatter, Ireduce_scatter, in, out, shares, MPI_INT, MPI_SUM, )
    CASE("reduce_scatter_block", Reduce_scatter_block, Ireduce_scatter_block, REDUCED, )
    CASE("scan", Scan, Iscan, REDUCED, )
    CASE("scatter", Scatter, Iscatter, EVEN, root, )
    CASE("scatterv", Scatterv, Iscatterv, in, shares, gaps, MPI_INT, out, mine, MPI_INT, root, )
    CASE("neighbor_allgather", Neighbor_allgather, Ineighbor_allgather, EVEN, )
    CASE("neighbor_allgatherv", Neighbor_allgatherv, Ineighbor_allgatherv, in, mine, MPI_INT, out,
         heard, gaps, MPI_INT, )
    CASE("neighbor_alltoall", Neighbor_alltoall, Ineighbor_alltoall, EVEN, )
    CASE("neighbor_alltoallv", Neighbor_alltoallv, Ineighbor_alltoallv, in, to, gaps, MPI_INT, out,
         from, gaps, MPI_INT, )
    CASE("neighbor_alltoallw", Neighbor_alltoallw, Ineighbor_alltoallw, in, to, addresses, types,
         out, from, addresses, types, )
    fprintf(stderr, "virtual_clock_delays: no operation %s\n", operation);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

struct alpha_beta_fit {
    char operation[40], form, comm;
    int root;
    int64_t before[MOST], between[MOST];
};

/* The root as each member of an inter-communicator names it: it is one of the even ranks. */
static int root_for(const struct alpha_beta_fit *l)
{
    if (l->comm != 'i' || rank % 2 == 1)
        return l->root;
    return rank / 2 == l->root ? MPI_ROOT : MPI_PROC_NULL;
}

static void run_pair(const struct alpha_beta_fit *l)
{
    MPI_Request requests[2];
    static int value[COUNT];

    if (l->form == 'p') {
        MPI_Allreduce_init(in, out, COUNT, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &requests[0]);
        MPI_Bcast_init(value, COUNT, MPI_INT, l->root, world, MPI_INFO_NULL, &requests[1]);
        virtual_advance(l->before[rank]);
        MPI_Startall(2, requests);
        virtual_advance(l->between[rank]);
    } else {
        virtual_advance(l->before[rank]);
        MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_SUM, world, &requests[0]);
        virtual_advance(l->between[rank]);
        MPI_Ibcast(value, COUNT, MPI_INT, l->root, world, &requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2 && l->form == 'p'; i++)
        MPI_Request_free(&requests[i]);
}

static void poll(MPI_Request *request)
{
    int done = 0;

    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        virtual_advance(STEP_NS);
    }
}

static void run_line(const struct alpha_beta_fit *l)
{
    MPI_Comm const comm = l->comm == 'w'   ? world
                          : l->comm == 'r' ? reversed
                          : l->comm == 'i' ? inter
                                           : graph_comm;
    MPI_Request request = MPI_REQUEST_NULL;

    virtual_align();
    if (strcmp(l->operation, "pair") == 0) {
        run_pair(l);
        return;
    }
    if (l->form == 'p')
        call(l->operation, 'p', comm, root_for(l), &request);
    for (int start = 0; start < (l->form == 'p' ? 2 : 1); start++) {
        virtual_align();
        virtual_advance(l->before[(rank + start) % size]);
        if (l->form == 'p')
            MPI_Start(&request);
        else
            call(l->operation, l->form, comm, root_for(l), &request);
        virtual_advance(l->between[(rank + start) % size]);
        if (l->form == 't')
            poll(&request);
        else if (l->form != 'b')
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (l->form == 'p')
        MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    struct alpha_beta_fit l;

    *(void **)&virtual_communicator = dlsym(RTLD_DEFAULT, "virtual_communicator");
    *(void **)&virtual_advance = dlsym(RTLD_DEFAULT, "virtual_advance");
    *(void **)&virtual_align = dlsym(RTLD_DEFAULT, "virtual_align");
    FILE *const plan = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (virtual_align == NULL || plan == NULL)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    make_communicators();
    while (fscanf(plan, "%39s %c %c %d", l.operation, &l.form, &l.comm, &l.root) == 4) {
        for (int i = 0; i < size; i++)
            if (fscanf(plan, "%ld", &l.before[i]) != 1)
                return 2;
        for (int i = 0; i < size; i++)
            if (fscanf(plan, "%ld", &l.between[i]) != 1)
                return 2;
        run_line(&l);
    }
    fclose(plan);
    virtual_align();
    MPI_Finalize();
    return 0;
}
