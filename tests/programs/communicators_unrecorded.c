/* Calls on communicators that were created without the recorder's wrappers, while recording is
 * paused. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Comm unseen[2];

    MPI_Init(&argc, &argv);
    for (int i = 0; i < 2; i++)
        PMPI_Comm_dup(MPI_COMM_WORLD, &unseen[i]);
    MPI_Pcontrol(0);
    MPI_Barrier(unseen[0]);
    MPI_Barrier(unseen[0]);
    MPI_Pcontrol(1);
    MPI_Barrier(unseen[0]);
    MPI_Barrier(unseen[1]);
    for (int i = 0; i < 2; i++)
        PMPI_Comm_free(&unseen[i]);
    MPI_Finalize();
    return 0;
}
