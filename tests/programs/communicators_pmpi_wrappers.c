/* A program that counts freed communicators and wraps duplication through PMPI. The library reuses
 * a freed handle for the next communicator, which has another rank order. */
#include <mpi.h>
#include <stdio.h>

enum { MOST = 64 };
static int freed;

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
    return PMPI_Comm_dup(comm, made);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    freed++;
    return PMPI_Comm_free(comm);
}

int main(void)
{
    int rank, size, wrong = 0, all = 0;
    MPI_Comm reversed;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    for (int i = 0; i < 3; i++) {
        int got[MOST], root = rank;
        MPI_Comm same, other;

        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &same);
        MPI_Allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, same);
        MPI_Comm_free(&same);
        MPI_Comm_dup(reversed, &other);
        MPI_Allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, other);
        for (int j = 0; j < size; j++)
            wrong += got[j] != size - 1 - j;
        MPI_Bcast(&root, 1, MPI_INT, 0, other);
        wrong += root != size - 1;
        MPI_Comm_free(&other);
    }
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong, %d freed\n", all, freed);
    MPI_Finalize();
    return wrong != 0;
}
