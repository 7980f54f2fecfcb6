/* One rank after the other requests a Cartesian communicator with a negative dimension. Open MPI
 * rejects it with MPI_ERR_OTHER without a message. The other ranks continue. Prints "ok". */
#include <mpi.h>
#include <stdio.h>

enum { TURNS = 20 };

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm mine, made;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    MPI_Comm_set_errhandler(mine, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mine, &rank);
    MPI_Comm_size(mine, &size);
    for (int i = 0; i < TURNS; i++) {
        int below = -3, periodic = 0, sum = 0, told = rank == i % size ? i : -1;

        if (rank == i % size && MPI_Cart_create(mine, 1, &below, &periodic, 0, &made) == 0)
            MPI_Abort(mine, 1);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, mine);
        MPI_Bcast(&told, 1, MPI_INT, i % size, mine);
        if (sum != size * (size - 1) / 2 || told != i)
            MPI_Abort(mine, 2);
    }
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
