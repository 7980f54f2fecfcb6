/* Makes and frees a communicator many times, on 2 ranks: the library uses its handles again. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int times = atoi(argv[1]);

    MPI_Init(&argc, &argv);
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
