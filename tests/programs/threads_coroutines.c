/* Coroutines on separate stacks in one thread, as in user-level thread libraries. An operation
 * yields to another stack, which calls MPI during the reduction. An error handler yields forever.
 * An operation calls MPI itself. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { STACK = 1 << 18, TURNS = 30, ELEMENTS = 50 };

static ucontext_t home, in_op, workers[3];
static char *stacks; /* three, one above the other */
static int rank, yields, nested;
static MPI_Comm twin;

static void start(int which, void (*body)(void))
{
    getcontext(&workers[which]);
    workers[which].uc_stack.ss_sp = stacks + which * STACK;
    workers[which].uc_stack.ss_size = STACK;
    workers[which].uc_link = NULL;
    makecontext(&workers[which], body, 0);
}

static void barrier_aside(void)
{
    for (;;) {
        MPI_Barrier(twin);
        swapcontext(&workers[yields % 2 * 2], &in_op);
    }
}

static void add(const int *in, int *out, int count)
{
    for (int i = 0; i < count; i++)
        out[i] += in[i];
}

static void yielding(void *in, void *out, int *count, MPI_Datatype *type)
{
    (void)type;
    yields++;
    swapcontext(&in_op, &workers[yields % 2 * 2]);
    add(in, out, *count);
}

static void nesting(void *in, void *out, int *count, MPI_Datatype *type)
{
    int one = 1, sum = 0;

    (void)type;
    nested++;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    add(in, out, *count);
}

static void reduce(MPI_Op op)
{
    int mine[ELEMENTS], sums[ELEMENTS];

    for (int i = 0; i < ELEMENTS; i++)
        mine[i] = i + rank;
    MPI_Allreduce(mine, sums, ELEMENTS, MPI_INT, op, MPI_COMM_WORLD);
    for (int i = 0; i < ELEMENTS; i++)
        if (sums[i] != 2 * i + 1)
            exit(3);
}

static void reduce_yielding(void)
{
    MPI_Op op;

    MPI_Op_create(yielding, 1, &op);
    for (int i = 0; i < TURNS; i++)
        reduce(op);
    MPI_Op_free(&op);
    swapcontext(&workers[1], &home);
}

static void yielding_for_ever(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    setcontext(&home);
}

static void mistaken(void)
{
    int value = 1;

    MPI_Bcast(&value, 1, MPI_INT, 1000, MPI_COMM_WORLD);
    exit(4);
}

static void reduce_aside(void)
{
    reduce(MPI_SUM);
    setcontext(&home);
}

/* Starts a coroutine, and comes back when it yields home. */
static void run(int which, void (*body)(void))
{
    volatile int back = 0;

    start(which, body);
    getcontext(&home);
    if (!back) {
        back = 1;
        setcontext(&workers[which]);
    }
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Op op;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_SELF, &twin);
    stacks = malloc(3 * STACK);
    start(0, barrier_aside);
    start(2, barrier_aside);
    run(1, reduce_yielding);

    MPI_Op_create(nesting, 1, &op);
    for (int i = 0; i < TURNS; i++)
        reduce(op);
    MPI_Op_free(&op);

    MPI_Comm_create_errhandler(yielding_for_ever, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int i = 0; i < TURNS; i++) {
        if (rank == 1)
            run(i % 3, mistaken);
        run((i + i / 3) % 3, reduce_aside);
        reduce(MPI_SUM);
    }
    MPI_Errhandler_free(&handler);
    printf("rank %d yields %d nested %d\n", rank, yields, nested > 0);
    MPI_Comm_free(&twin);
    MPI_Finalize();
    return 0;
}
