/* Two ranks that exchange many short messages. Arguments: number of exchanges, and "leave", "kill"
 * for the death of rank 1 by SIGKILL after its last message, or "self" for ranks that send each
 * message to themselves.
 */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const int exchanges = argc > 1 ? atoi(argv[1]) : 10000;
    int rank, value = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int to_self = argc > 2 && strcmp(argv[2], "self") == 0;

    for (int i = 0; i < exchanges && to_self; i++)
        MPI_Sendrecv(&i, 1, MPI_INT, rank, 1, &value, 1, MPI_INT, rank, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    for (int i = 0; i < exchanges && rank < 2 && !to_self; i++) {
        if (rank == 0)
            MPI_Send(&i, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(&i, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    if (rank == 1 && argc > 2 && strcmp(argv[2], "kill") == 0)
        raise(SIGKILL);
    MPI_Finalize();
    return 0;
}
