/* Reduces with an MPICH extension operation and with a user-defined one. Prints the error class of
 * the former, which must equal that of the bare library, and "ok" for the latter's result. */
#include <mpi.h>
#include <stdio.h>

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv)
{
    int rank, size, class = 0, right = 1;
    int in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0};
    MPI_Op mine;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Op_create(add, 1, &mine);
    for (int i = 0; i < 5; i++) {
        const int error = MPI_Allreduce(in, out, 8, MPI_INT, MPIX_EQUAL, MPI_COMM_WORLD);

        MPI_Error_class(error, &class);
        MPI_Reduce(in, out, 8, MPI_INT, MPIX_EQUAL, 0, MPI_COMM_WORLD);
        MPI_Allreduce(in, out, 8, MPI_INT, mine, MPI_COMM_WORLD);
        for (int j = 0; j < 8; j++)
            right &= out[j] == size * in[j];
    }
    MPI_Op_free(&mine);
    if (rank == 0)
        printf("class %d, %s\n", class, right ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
