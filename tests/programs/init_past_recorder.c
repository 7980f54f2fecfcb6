/* A program that defines MPI_Init over PMPI, and with OWN_FINALIZE also MPI_Finalize. Rank 0
 * returns 3, and the other ranks 0: a launcher kills all ranks after the first that fails, and
 * rank 0 must live until its destructors have run. */
#include <mpi.h>
#include <stdio.h>

int MPI_Init(int *argc, char ***argv)
{
    return PMPI_Init(argc, argv);
}

#ifdef OWN_FINALIZE
int MPI_Finalize(void)
{
    return PMPI_Finalize();
}
#endif

int main(int argc, char **argv)
{
    int one = 1, sum = 0, rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%d", sum);
    MPI_Finalize();
    return rank == 0 ? 3 : 0;
}
