/* Spawns itself. Parent and child exchange a number, and the child exits with it. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    MPI_Comm other, all;
    int number = 0, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&other);
    if (other != MPI_COMM_NULL) {
        MPI_Bcast(&number, 1, MPI_INT, 0, other);
        printf("child got %d\n", number);
        MPI_Intercomm_merge(other, 1, &all);
    } else {
        char *const empty[] = {NULL}, *commands[] = {argv[0]};
        char **arguments[] = {(char **)empty};
        const int one = 1;
        const MPI_Info info = MPI_INFO_NULL;

        if (argc > 1 && strcmp(argv[1], "multiple") == 0)
            MPI_Comm_spawn_multiple(1, commands, arguments, &one, &info, 0, MPI_COMM_WORLD, &other,
                                    MPI_ERRCODES_IGNORE);
        else
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &other,
                           MPI_ERRCODES_IGNORE);
        number = 4711;
        MPI_Bcast(&number, 1, MPI_INT, MPI_ROOT, other);
        MPI_Intercomm_merge(other, 0, &all);
    }
    MPI_Comm_size(all, &size);
    MPI_Barrier(all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return size == 2 ? 0 : 1;
}
