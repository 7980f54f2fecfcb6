/* A healthy program without an end, for jobs that are killed at any moment. The argument is
 * "collectives" or "messages". Rank 0 creates the file `started` after some steps.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STARTED = 20, MANY = 1 << 15 };

static double sent[MANY], received[MANY];

static void work(int microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000L * microseconds}, NULL);
}

static void step_collectives(int rank, int step)
{
    MPI_Bcast(sent, 16, MPI_DOUBLE, step % 2, MPI_COMM_WORLD);
    work(500 * (rank + 1));
    MPI_Allreduce(sent, received, 16, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (step % 10 == 0)
        MPI_Barrier(MPI_COMM_WORLD);
}

/* A halo exchange in a ring, with short and long messages, blocking and nonblocking. */
static void step_messages(int rank, int size, int step)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const int count = step % 3 == 0 ? MANY : 16;
    MPI_Request requests[2];

    MPI_Irecv(received, count, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, count, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, &requests[1]);
    work(500 * (rank + 1));
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(sent, count, MPI_DOUBLE, before, 2, received, count, MPI_DOUBLE, next, 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank % 2 == 0) {
        if (rank + 1 < size)
            MPI_Send(sent, count, MPI_DOUBLE, rank + 1, 3, MPI_COMM_WORLD);
    } else {
        MPI_Recv(received, count, MPI_DOUBLE, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    const int messages = argc > 1 && strcmp(argv[1], "messages") == 0;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0;; step++) {
        if (messages)
            step_messages(rank, size, step);
        else
            step_collectives(rank, step);
        if (step == STARTED && rank == 0)
            fclose(fopen("started", "w"));
    }
}
