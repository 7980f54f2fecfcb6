/* Passes NULL to MPI for required addresses, under MPI_ERRORS_RETURN, and prints the errors. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm *volatile no_comm = NULL;
    MPI_Request *volatile no_request = NULL;
    int *volatile no_flag = NULL;
    MPI_Request pending = MPI_REQUEST_NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    printf("%d", MPI_Comm_free(no_comm) != MPI_SUCCESS);
    printf("%d", MPI_Test(&pending, no_flag, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    printf("%d", MPI_Testall(1, &pending, no_flag, MPI_STATUSES_IGNORE) != MPI_SUCCESS);
    printf("%d\n", MPI_Wait(no_request, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    MPI_Finalize();
    return 0;
}
