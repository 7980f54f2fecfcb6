/* Calls collectives with arguments that a library rejects, and with a message too long for one
 * rank.
 *
 *   execute_errors refused     the same error on all ranks; prints each error class
 *   execute_errors truncated   for 3 ranks: only rank 2 gets an error, once, in the user's handler
 *
 * After each error a correct call on the same communicator must return the right result.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 64 };
static int rank, size, handled, handled_code;
static MPI_Comm comm, handled_comm;
static double in[ROOM], out[ROOM];

static void still_works(const char *name)
{
    int one = 1, sum = 0, ranks[ROOM];

    if (MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS || sum != size)
        printf("%d: the allreduce after %s gave %d\n", rank, name, sum);
    MPI_Allgather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, comm);
    for (int i = 0; i < size; i++)
        if (ranks[i] != i)
            printf("%d: the allgather after %s is wrong\n", rank, name);
}

static void say(const char *name, int error)
{
    int class = 0;

    MPI_Error_class(error, &class);
    printf("%d %s: class %d\n", rank, name, class);
    still_works(name);
}

static void add(void *a, void *b, int *count, MPI_Datatype *type)
{
    (void)a, (void)b, (void)count, (void)type;
}

static void refused(void)
{
    int counts[ROOM], places[ROOM];
    MPI_Datatype loose, pairs;
    MPI_Op op;

    for (int i = 0; i < ROOM; i++)
        counts[i] = 1, places[i] = i;
    MPI_Type_contiguous(2, MPI_DOUBLE, &loose); /* never committed */
    MPI_Type_contiguous(2, MPI_DOUBLE, &pairs);
    MPI_Type_commit(&pairs);
    MPI_Op_create(add, 1, &op);
    say("band of doubles", MPI_Allreduce(in, out, 4, MPI_DOUBLE, MPI_BAND, comm));
    say("maxloc of ints", MPI_Reduce(in, out, 4, MPI_INT, MPI_MAXLOC, 0, comm));
    say("sum of pairs", MPI_Allreduce(in, out, 1, pairs, MPI_SUM, comm));
    say("sum of a derived type", MPI_Reduce_scatter_block(in, out, 1, pairs, MPI_SUM, comm));
    say("a wrong operation, irregular", MPI_Reduce_scatter(in, out, counts, pairs, MPI_MAX, comm));
    say("an operation for windows", MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_REPLACE, comm));
    say("uncommitted, bcast", MPI_Bcast(in, 1, loose, 1, comm));
    say("uncommitted, allgather", MPI_Allgather(in, 1, loose, out, 1, pairs, comm));
    say("uncommitted, alltoall", MPI_Alltoall(in, 1, pairs, out, 1, loose, comm));
    say("uncommitted, allgatherv", MPI_Allgatherv(in, 1, pairs, out, counts, places, loose, comm));
    say("uncommitted, user operation", MPI_Allreduce(in, out, 1, loose, op, comm));
    say("no root", MPI_Bcast(in, 1, MPI_DOUBLE, size, comm));
    say("negative count", MPI_Allgather(in, -1, MPI_DOUBLE, out, 1, MPI_DOUBLE, comm));
#ifndef OPEN_MPI /* which reports it on MPI_COMM_WORLD */
    say("in place to receive", MPI_Allreduce(in, MPI_IN_PLACE, 1, MPI_DOUBLE, MPI_SUM, comm));
#endif
    MPI_Type_free(&loose);
    MPI_Type_free(&pairs);
    MPI_Op_free(&op);
}

static void count_calls(MPI_Comm *where, int *code, ...)
{
    handled++;
    handled_code = *code;
    handled_comm = *where;
}

static void expect(const char *name, int error, bool truncated)
{
    int class = MPI_SUCCESS, given = MPI_SUCCESS, same = MPI_UNEQUAL;

    MPI_Error_class(error, &class);
    if (class != (truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS))
        printf("%d %s: class %d\n", rank, name, class);
    if (handled != truncated)
        printf("%d %s: the handler was called %d times\n", rank, name, handled);
    if (handled > 0) {
        MPI_Error_class(handled_code, &given);
        MPI_Comm_compare(handled_comm, comm, &same);
        if (given != class || same != MPI_IDENT)
            printf("%d %s: the handler got class %d\n", rank, name, given);
    }
    handled = 0;
    still_works(name);
}

static void truncated(void)
{
    const int fewer = rank == 2 ? 3 : 8;
    int counts[] = {8, 8, 8}, places[] = {0, 8, 16};
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(count_calls, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    expect("bcast", MPI_Bcast(in, fewer, MPI_DOUBLE, 0, comm), rank == 2);
    expect("scatter", MPI_Scatter(in, 8, MPI_DOUBLE, out, fewer, MPI_DOUBLE, 0, comm), rank == 2);
    expect("scatterv",
           MPI_Scatterv(in, counts, places, MPI_DOUBLE, out, fewer, MPI_DOUBLE, 0, comm),
           rank == 2);
    counts[1] = rank == 2 ? 2 : 8; /* rank 2 expects less of rank 1 */
    expect("alltoallv",
           MPI_Alltoallv(in, (int[]){8, 8, 8}, places, MPI_DOUBLE, out, counts, places, MPI_DOUBLE,
                         comm),
           rank == 2);
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv)
{
    char name[20];

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    snprintf(name, sizeof name, "said-%d.txt", rank);
    if (argc < 2 || freopen(name, "w", stdout) == NULL)
        return 2;
    if (strcmp(argv[1], "refused") == 0)
        refused();
    else
        truncated();
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
