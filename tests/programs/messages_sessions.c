/* A message between 2 processes that have Sessions only. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    MPI_Session session;
    MPI_Request request;
    MPI_Group group;
    MPI_Status status;
    MPI_Comm comm;
    int rank, number = 0;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "messages", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    if (rank == 0) {
        MPI_Irecv(&number, 1, MPI_INT, 1, 5, comm, &request);
        MPI_Wait(&request, &status);
    } else {
        MPI_Send(&rank, 1, MPI_INT, 0, 5, comm);
    }
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    return rank == 0 && number != 1;
}
