/* Starts two more processes of itself, calls one barrier with them, and ends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, children, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                       MPI_ERRCODES_IGNORE);
        MPI_Intercomm_merge(children, 0, &all);
        MPI_Barrier(all);
        int size;
        MPI_Comm_size(all, &size);
        printf("%d together\n", size);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&children);
    } else {
        MPI_Intercomm_merge(parent, 1, &all);
        if (getenv("LD_PRELOAD") != NULL)
            printf("preloaded\n");
        MPI_Barrier(all);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    return 0;
}
