/* Checks for each rooted operation that the other rank can run ahead of a late rank.
 *
 *     rooted_run_ahead FILE      2 ranks
 *
 * Rank 1 makes no MPI call until rank 0 has made CALLS calls. Rank 0 can make them unless a barrier
 * was added. After SIGNS_PATIENCE_S rank 1 continues without the sign. Prints a line for each
 * operation. FILE stores the signs.
 */
#define _GNU_SOURCE
#include "handshake.h"
#include <mpi.h>
#include <stdio.h>

enum { CALLS = 20 };

static void call(int operation)
{
    int value = 1, sum, all[2];

    if (operation == 0)
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    else if (operation == 1)
        MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
    else
        MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"bcast", "reduce", "gather"};
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    signs_open(argv[1]);
    for (int operation = 0; operation < 3; operation++) {
        int ahead = 1;

        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            ahead = sign_wait(0, operation + 1);
        for (int i = 0; i < CALLS; i++)
            call(operation);
        sign_give(rank, operation + 1);
        if (rank == 1)
            printf("%s %s\n", names[operation], ahead ? "runs ahead" : "waits");
    }
    MPI_Finalize();
    return 0;
}
