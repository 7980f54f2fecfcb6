/* A hang with nearly all calls missing from the log.
 *
 *     unlogged
 *
 * All ranks pause recording, except for a barrier of the world. The last rank but one does not
 * reach that barrier: it waits for the last rank in a barrier of these two, and the last rank
 * sleeps.
 */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm pair;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank >= size - 2, rank, &pair);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(rank < size - 2);
    while (rank == size - 1)
        sleep(1);
    MPI_Barrier(rank == size - 2 ? pair : MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
