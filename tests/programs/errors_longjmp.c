/* An error handler abandons a collective with longjmp. Later calls must still be recorded. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>

static jmp_buf back;

static void leave(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    longjmp(back, 1);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int value = 1, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (setjmp(back) == 0)
        MPI_Bcast(&value, 1, MPI_INT, 1000, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Errhandler_free(&handler);
    printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
