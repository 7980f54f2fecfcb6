/* Another preloaded tool: counts MPI_Allreduce and prints the number in MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>

static int calls;

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm)
{
    calls++;
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

int MPI_Finalize(void)
{
    printf("tool saw %d\n", calls);
    fflush(stdout);
    return PMPI_Finalize();
}
