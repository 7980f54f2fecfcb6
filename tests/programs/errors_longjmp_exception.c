/* An error handler that never returns: longjmp in C, an exception in C++. Only rank 1 makes
 * erroneous calls. Correct calls must work as without them, on all members. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 20 };

static int rank, left, asked;

#ifdef __cplusplus
#define TRY(statement)                                                                             \
    try                                                                                            \
    {                                                                                              \
        statement;                                                                                 \
    }                                                                                              \
    catch(int)                                                                                     \
    {                                                                                              \
        left++;                                                                                    \
    }
static void leave(void)
{
    throw 1;
}
#else
static jmp_buf back;
#define TRY(statement)                                                                             \
    do {                                                                                           \
        if (setjmp(back) == 0) {                                                                   \
            statement;                                                                             \
        } else {                                                                                   \
            left++;                                                                                \
        }                                                                                          \
    } while (0)
static void leave(void)
{
    longjmp(back, 1);
}
#endif

static void leaving(MPI_Comm *comm, int *code, ...)
{
    int one = 1, sum = 0;

    (void)comm;
    (void)code;
    asked++;
    /* Calls of a handler are not part of the failed call. */
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    leave();
}

static void returning(MPI_Comm *comm, int *code, ...)
{
    int one = 1, sum = 0;

    (void)comm;
    (void)code;
    asked++;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
}

static void check(MPI_Comm comm)
{
    int mine[600], sums[600], twice[8] = {0};

    for (int i = 0; i < 600; i++)
        mine[i] = i + rank;
    MPI_Allreduce(mine, sums, 600, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < 600; i++)
        if (sums[i] != 2 * i + 1) {
            printf("rank %d: wrong sum\n", rank);
            exit(3);
        }
    if (rank == 0)
        for (int i = 0; i < 8; i++)
            twice[i] = 5;
    MPI_Bcast(twice, 8, MPI_INT, 0, comm);
    if (twice[7] != 5)
        exit(4);
}

/* Deep below, with frames that cover what a call has left behind, and don't write to it. */
static void check_deep(MPI_Comm comm, int depth)
{
    volatile char room[5000];

    room[0] = 1;
    if (depth > 0)
        check_deep(comm, depth - 1);
    else
        check(comm);
    room[1] = room[0];
}

static void wrong_deep(MPI_Comm comm, int depth)
{
    volatile char room[5000];
    int value = 1;

    room[0] = 1;
    if (depth > 0)
        wrong_deep(comm, depth - 1);
    else
        MPI_Bcast(&value, 1, MPI_INT, 1000, comm);
    room[1] = room[0];
}

static void wrong_calls(MPI_Comm comm)
{
    int value = 1, sum = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm made = MPI_COMM_NULL;

    TRY(MPI_Bcast(&value, 1, MPI_INT, 1000, comm));
    TRY(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_OP_NULL, comm));
    TRY(MPI_Ibcast(&value, 1, MPI_INT, 1000, comm, &request));
    TRY(MPI_Comm_create(comm, MPI_GROUP_NULL, &made));
    TRY(MPI_Send(&value, 1, MPI_INT, 1000, 0, comm));
    TRY(MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 77, comm));
}

/* MPI_Waitall calls the handler; its other request is complete. */
static void truncated(MPI_Comm comm)
{
    int mine = 1, sum = 0, big[4] = {0}, small = 0;
    MPI_Request requests[2];

    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
    if (rank == 0) {
        MPI_Send(big, 4, MPI_INT, 1, 9, comm);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        return;
    }
    MPI_Irecv(&small, 1, MPI_INT, 0, 9, comm, &requests[1]);
    TRY(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    if (requests[0] != MPI_REQUEST_NULL)
        TRY(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Errhandler handlers[2];
    MPI_Comm twin;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(leaving, &handlers[0]);
    MPI_Comm_create_errhandler(returning, &handlers[1]);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handlers[0]);
        if (rank == 1) {
            wrong_calls(MPI_COMM_WORLD);
            TRY(wrong_deep(MPI_COMM_WORLD, turn % 3 * 8));
        }
        check_deep(MPI_COMM_WORLD, turn % 5 * 4);
        truncated(MPI_COMM_WORLD);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handlers[1]);
        if (rank == 1)
            MPI_Bcast(&left, 1, MPI_INT, 1000, MPI_COMM_WORLD);
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        MPI_Comm_set_errhandler(twin, handlers[0]);
        if (rank == 1)
            wrong_calls(twin);
        check(twin);
        MPI_Comm_free(&twin);
    }
    printf("rank %d left %d asked %d\n", rank, left, asked);
    MPI_Errhandler_free(&handlers[0]);
    MPI_Errhandler_free(&handlers[1]);
    MPI_Finalize();
    return 0;
}
