/* Spawns two processes of the command in its arguments, and ends with them. The spawned command has
 * no arguments. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm other;
    int number = 0, rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&other);
    if (other != MPI_COMM_NULL) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Bcast(&number, 1, MPI_INT, 0, other);
        printf("child got %d\n", number);
    } else {
        MPI_Comm_spawn(argv[1], argv + 2, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                       MPI_ERRCODES_IGNORE);
        number = 4711;
        MPI_Bcast(&number, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, other);
    }
    /* Children that ended while a parent was still connecting to them would make it abort, under
     * MPICH's UCX. */
    MPI_Barrier(other);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return 0;
}
