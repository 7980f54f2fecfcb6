/* Creates duplicates of MPI_COMM_WORLD until MPI has no more, each used once and none freed. Then
 * the last one is used often, and all are freed. Prints the number of duplicates. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int wanted = argc > 1 ? atoi(argv[1]) : 10, turns = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Comm *const made = malloc(sizeof *made * (size_t)wanted);
    int count = 0, rank, size, one = 1, sum = 0, right = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (; count < wanted; count++) {
        if (MPI_Comm_dup(MPI_COMM_WORLD, &made[count]) != MPI_SUCCESS)
            break;
        right &= MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[count]) == MPI_SUCCESS;
        right &= sum == size;
    }
    for (int i = 0; i < turns && count > 0; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[count - 1]);
        right &= sum == size;
    }
    for (int i = 0; i < count; i++)
        MPI_Comm_free(&made[i]);
    if (rank == 0)
        printf("%d %s\n", count, right ? "right" : "wrong");
    free(made);
    MPI_Finalize();
    return 0;
}
