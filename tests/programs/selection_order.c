/* Each rank in turn starts a nonblocking collective or duplicate before a barrier, and the other
 * ranks start it after the barrier: selection_order [TURN], from this turn on. MPI forbids that on
 * one communicator, and MPICH and Open MPI forgive it. Turns 3, 7, ... start a duplicate. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 60 };

static int rank, size, wrong;

static void start(int turn, MPI_Comm *copy, int *sum, MPI_Request *request)
{
    static const int one = 1;

    *copy = MPI_COMM_NULL;
    *sum = size;
    if (turn % 4 == 3)
        MPI_Comm_idup(MPI_COMM_WORLD, copy, request);
    else
        MPI_Iallreduce(&one, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
}

static void reduce(MPI_Comm comm)
{
    int sum = 0;

    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    wrong += sum != size * (size - 1) / 2;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int turn = argc > 1 ? atoi(argv[1]) : 0; turn < TURNS; turn++) {
        const int is_early = turn % size == rank;
        MPI_Request request;
        MPI_Comm copy;
        int sum;

        if (is_early)
            start(turn, &copy, &sum, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!is_early)
            start(turn, &copy, &sum, &request);
        reduce(MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        wrong += sum != size;
        if (copy != MPI_COMM_NULL) {
            reduce(copy);
            MPI_Comm_free(&copy);
        }
    }
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &wrong, &wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", wrong);
    MPI_Finalize();
    return 0;
}
