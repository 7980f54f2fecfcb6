/* Two of four ranks abort a communicator of that half ("lower" or "upper"). The other two continue
 * to MPI_Finalize without them. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CALLS = 200 };

int main(int argc, char **argv)
{
    int rank, size;
    double in[64] = {0}, out[64];
    MPI_Comm half;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
    for (int i = 0; i < CALLS; i++)
        MPI_Allreduce(in, out, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if ((strcmp(argv[1], "lower") == 0) == (rank < size / 2))
        MPI_Abort(half, 12);
    usleep(200000); /* in most runs the others are gone then; the result is the same if not */
    MPI_Finalize();
    return 0;
}
