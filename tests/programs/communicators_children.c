/* Creates COUNT children of a communicator that shares its entry with equivalent communicators, and
 * calls a barrier on each child. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Comm first, parent, child;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    for (int i = 0; i < atoi(argv[1]); i++) {
        MPI_Comm_dup(parent, &child);
        MPI_Barrier(child);
        MPI_Comm_free(&child);
    }
    MPI_Comm_free(&parent);
    MPI_Comm_free(&first);
    MPI_Finalize();
    return 0;
}
