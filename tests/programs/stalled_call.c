/* Rank 1 waits for messages of rank 0 several times, and rank 0 stops the process of rank 1 with
 * SIGSTOP while rank 1 waits. Two ranks on one node.
 *
 *     stalled_call [early | poll]
 *
 * early: rank 1 is stopped once, in its first long call. poll: rank 1 waits with MPI_Test. */
#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAITS = 12, STOPS = 3, WAIT_MS = 20, BEFORE_MS = 100, STOP_MS = 600 };

static void sleep_ms(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void receive(int tag, int polls)
{
    MPI_Request request;
    int data, is_complete = 0;

    if (!polls) {
        MPI_Recv(&data, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* is stopped */
        return;
    }
    MPI_Irecv(&data, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &request);
    while (!is_complete)
        MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE); /* polls */
}

/* Send messages late, and stop the receiver before some of them. */
static void send_late(int pid, int count, int stops)
{
    for (int i = 0; i < count; i++) {
        sleep_ms(stops ? BEFORE_MS : WAIT_MS);
        if (stops) {
            kill(pid, SIGSTOP);
            sleep_ms(STOP_MS);
            kill(pid, SIGCONT);
        }
        MPI_Send(&pid, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, pid = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *const mode = argc > 1 ? argv[1] : "";
    const int is_early = strcmp(mode, "early") == 0, polls = strcmp(mode, "poll") == 0;
    const int stops = is_early ? 1 : STOPS;

    if (rank == 1) {
        pid = (int)getpid();
        MPI_Send(&pid, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        for (int i = 0; i < WAITS + stops; i++)
            receive(1, polls);
    } else if (rank == 0) {
        MPI_Recv(&pid, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is_early)
            send_late(pid, stops, 1);
        send_late(pid, WAITS, 0);
        if (!is_early)
            send_late(pid, stops, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
