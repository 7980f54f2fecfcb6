/* Rank 1 waits for messages of rank 0 several times, and rank 0 stops the process of rank 1 with
 * SIGSTOP while rank 1 waits. Two ranks on one node. */
#include <mpi.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { WAITS = 12, STOPS = 3, WAIT_MS = 20, BEFORE_MS = 100, STOP_MS = 600 };

static void sleep_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
    int rank, pid = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        pid = (int)getpid();
        MPI_Send(&pid, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        for (int i = 0; i < WAITS; i++)
            MPI_Recv(&pid, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < STOPS; i++)
            MPI_Recv(&pid, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* is stopped */
    } else if (rank == 0) {
        MPI_Recv(&pid, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < WAITS; i++) {
            sleep_ms(WAIT_MS);
            MPI_Send(&pid, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        }
        for (int i = 0; i < STOPS; i++) {
            sleep_ms(BEFORE_MS);
            kill(pid, SIGSTOP);
            sleep_ms(STOP_MS);
            kill(pid, SIGCONT);
            MPI_Send(&pid, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
