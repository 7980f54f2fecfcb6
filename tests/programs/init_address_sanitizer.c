/* Computes a sum in heap memory. Compile with -fsanitize=address. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int *const mine = malloc(sizeof *mine);

    if (mine == NULL)
        return 1;
    *mine = rank;
    MPI_Allreduce(mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sum %d\n", sum);
    free(mine);
    MPI_Finalize();
    return 0;
}
