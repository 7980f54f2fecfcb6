/* A program that goes wrong in one known way, or in none, after rounds of sound collectives.
 *
 *     faults KIND OPERATION ODD COUNT FORM
 *
 * KIND: operation, root, count, type, reduction, order, leave, skip, extra, sleep, compute, receive,
 * wait, deadlock, segv, kill, term, abort, none. ODD: the rank that does it. COUNT: elements of a block.
 * FORM: 0 blocking, 1 nonblocking.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 17, ROUNDS = 8 };

struct given { /* what may be wrong of a call */
    const char *operation;
    int count, root, form;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Comm comm;
};
static int rank, size;
static char *in, *out;

static void finish(MPI_Request *request, int form)
{
    if (form)
        MPI_Wait(request, MPI_STATUS_IGNORE);
}

#define IS(name) (strcmp(g->operation, name) == 0)
#define START(name, ...)                                                                           \
    if (g->form)                                                                                   \
        MPI_I##name(__VA_ARGS__, &r);                                                              \
    else                                                                                           \
        MPI_##name(__VA_ARGS__)

/* The names of MPI's functions begin with a capital letter, those of the nonblocking ones after it. */
#define MPI_IBarrier MPI_Ibarrier
#define MPI_IBcast MPI_Ibcast
#define MPI_IReduce MPI_Ireduce
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IGather MPI_Igather
#define MPI_IScatter MPI_Iscatter
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_IScan MPI_Iscan
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block

static void call(const struct given *g)
{
    MPI_Request r = MPI_REQUEST_NULL;
    const int n = g->count;

    if (IS("barrier")) {
        START(Barrier, g->comm);
    } else if (IS("bcast")) {
        START(Bcast, out, n, g->type, g->root, g->comm);
    } else if (IS("reduce")) {
        START(Reduce, in, out, n, g->type, g->op, g->root, g->comm);
    } else if (IS("allreduce")) {
        START(Allreduce, in, out, n, g->type, g->op, g->comm);
    } else if (IS("gather")) {
        START(Gather, in, n, g->type, out, n, g->type, g->root, g->comm);
    } else if (IS("scatter")) {
        START(Scatter, in, n, g->type, out, n, g->type, g->root, g->comm);
    } else if (IS("allgather")) {
        START(Allgather, in, n, g->type, out, n, g->type, g->comm);
    } else if (IS("alltoall")) {
        START(Alltoall, in, n, g->type, out, n, g->type, g->comm);
    } else if (IS("scan")) {
        START(Scan, in, out, n, g->type, g->op, g->comm);
    } else if (IS("reduce_scatter_block")) {
        START(Reduce_scatter_block, in, out, n, g->type, g->op, g->comm);
    } else {
        fprintf(stderr, "faults: no operation %s\n", g->operation);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    finish(&r, g->form);
}

static void messages(void)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;

    MPI_Sendrecv(in, 8, MPI_INT, next, 1, out, 8, MPI_INT, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void compute(double seconds)
{
    const double until = MPI_Wtime() + seconds;
    volatile double x = 1;

    while (MPI_Wtime() < until)
        for (int i = 0; i < 1000; i++)
            x = x * 1.0000001 + 1e-9;
}

/* Late ranks, messages and collectives of all kinds, for a while. */
static void be_sound(struct given g)
{
    static const char *const all[] = {
        "barrier", "bcast",     "reduce",   "allreduce", "gather",
        "scatter", "allgather", "alltoall", "scan",      "reduce_scatter_block"};
    MPI_Comm half;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int i = 0; i < 60; i++) {
        g.operation = all[i % 10];
        g.root = i % size;
        g.count = 1 << (i % 12);
        g.form = i % 3 == 0;
        g.comm = MPI_COMM_WORLD;
        call(&g);
        if (i % size == rank)
            usleep(200000);
        messages();
        g.comm = half;
        g.root = 0;
        call(&g);
        if (i % 5 == 0 && rank == 1)
            compute(0.3);
    }
    MPI_Comm_free(&half);
}

static void be_alone(const char *kind)
{
    MPI_Request request;

    if (strcmp(kind, "sleep") == 0)
        for (;;)
            pause();
    if (strcmp(kind, "compute") == 0)
        compute(3600);
    if (strcmp(kind, "receive") == 0)
        MPI_Recv(out, 8, MPI_INT, (rank + 1) % size, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(kind, "wait") == 0) {
        MPI_Irecv(out, 8, MPI_INT, (rank + 1) % size, 77, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (strcmp(kind, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(kind, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(kind, "term") == 0)
        raise(SIGTERM);
    if (strcmp(kind, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 6)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const char *const kind = argv[1];
    const int odd = atoi(argv[3]);
    MPI_Comm first, second;
    struct given g = {argv[2], atoi(argv[4]), 0, atoi(argv[5]), MPI_INT, MPI_SUM, MPI_COMM_WORLD};

    in = calloc(MOST, 64);
    out = calloc(MOST, 64);
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    for (int i = 0; i < ROUNDS; i++) {
        call(&g);
        messages();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strcmp(kind, "none") == 0) {
        be_sound(g);
    } else if (strcmp(kind, "order") == 0) {
        g.comm = rank == odd ? first : second;
        call(&g);
        g.comm = rank == odd ? second : first;
        call(&g);
    } else if (strcmp(kind, "deadlock") == 0) {
        MPI_Recv(out, 8, MPI_INT, (rank + 1) % size, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == odd) {
        be_alone(kind);
        if (strcmp(kind, "leave") == 0) {
            MPI_Finalize();
            return 0;
        }
        if (strcmp(kind, "operation") == 0)
            g.operation = strcmp(g.operation, "barrier") == 0 ? "allreduce" : "barrier";
        if (strcmp(kind, "root") == 0)
            g.root = 1;
        if (strcmp(kind, "count") == 0)
            g.count *= 2;
        if (strcmp(kind, "type") == 0)
            g.type = MPI_DOUBLE;
        if (strcmp(kind, "reduction") == 0)
            g.op = MPI_MAX;
        if (strcmp(kind, "extra") == 0)
            call(&g);
        if (strcmp(kind, "skip") != 0)
            call(&g);
    } else {
        call(&g);
    }
    if (strcmp(kind, "none") != 0 && strcmp(kind, "extra") != 0 && strcmp(kind, "skip") != 0) {
        MPI_Barrier(MPI_COMM_WORLD); /* where what went through is caught */
        sleep(60);
    }
    MPI_Finalize();
    return 0;
}
