/* Frees communicators with an attribute. Its delete callback calls a collective on the communicator
 * that is being freed. Prints "ok" if all sums were right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int wrong;

static int release(MPI_Comm comm, int key, void *value, void *extra)
{
    int rank, size, sum = 0;

    (void)key, (void)value, (void)extra;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    wrong += sum != size * (size - 1) / 2;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, key;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, release, &key, NULL);
    for (int i = 0; i < atoi(argv[1]); i++) {
        MPI_Comm made;

        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made);
        MPI_Comm_set_attr(made, key, NULL);
        MPI_Comm_free(&made);
    }
    if (rank == 0)
        puts(wrong == 0 ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
