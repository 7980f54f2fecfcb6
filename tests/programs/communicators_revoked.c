/* With `mpiexec --with-ft ulfm`: rank 0 revokes a communicator on which the other ranks wait in a
 * reduction. All ranks detect the revocation and continue on the result of MPIX_Comm_shrink.
 *
 *     communicators_revoked SIGNS
 */
#include "handshake.h"
#include <mpi.h>
/* which this needs */
#include <mpi-ext.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm comm, shrunk;
    int rank, size, class, one = 1, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    signs_open(argv[1]);
    for (int i = 0; i < 100; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    signs_come_late(rank, 0, size, 1, 200);
    if (rank == 0)
        MPIX_Comm_revoke(comm);
    MPI_Error_class(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), &class);
    MPIX_Comm_shrink(comm, &shrunk);
    MPI_Comm_size(shrunk, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, shrunk);
    printf("%s, %d of %d\n", class == MPIX_ERR_REVOKED ? "revoked" : "not revoked", sum, size);
    MPI_Finalize();
    return 0;
}
