/* Creates and frees a communicator many times on 2 ranks, so that the library reuses its handles.
 * If SLOW_UNTIL is set, rank 1 creates that file after MPI_Init. */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const int times = atoi(argv[1]);
    const char *const sign = getenv("SLOW_UNTIL");
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (sign != NULL && rank == 1)
        close(open(sign, O_WRONLY | O_CREAT, 0600));
    for (int i = 0; i < times; i++) {
        MPI_Comm c;

        MPI_Comm_dup(MPI_COMM_WORLD, &c);
        if (i % 100 == 0)
            MPI_Barrier(c);
        MPI_Comm_free(&c);
    }
    MPI_Finalize();
    return 0;
}
