/* A program that hangs in a message call in one known way, after rounds of sound messages.
 *
 *     message_faults KIND OPERATION ODD COUNT FORM
 *
 * KIND: sends, tag, communicator, missing_send, missing_receive, receives, ended, any_source, waitall,
 * destination, probe, computing, files, chain, slow_messages. ODD: the rank that waits, or whose
 * message goes to the wrong rank. The other arguments are those of faults.c, and have no effect.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 1 << 20, ROUNDS = 8 };

static int rank, size;
static char *in, *out;
static MPI_Comm other;

static void sound_rounds(void)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request requests[2];

        MPI_Irecv(out, 8, MPI_INT, before, i % 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(in, 8, MPI_INT, next, i % 3, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(in, 8, MPI_INT, next, 4, out, 8, MPI_INT, before, 4, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void compute(double seconds)
{
    const double until = MPI_Wtime() + seconds;
    volatile double x = 1;

    while (MPI_Wtime() < until)
        x = x * 1.0000001 + 1e-9;
}

/* Write a file to the disk again and again. */
static void write_files(double seconds)
{
    const double until = MPI_Wtime() + seconds;
    const int file = open("message_faults.data", O_CREAT | O_RDWR | O_TRUNC, 0600);

    while (file >= 0 && MPI_Wtime() < until)
        if (pwrite(file, in, LARGE, 0) != LARGE || fsync(file) != 0)
            break;
    close(file);
}

static void receive(int source, int tag)
{
    MPI_Recv(out, 8, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The rank ODD waits, and the rank after it has a part in that. */
static void fault(const char *kind, int odd)
{
    const int next = (odd + 1) % size, third = (odd + 2) % size;
    const int before = (odd + size - 1) % size;
    MPI_Request requests[2];
    MPI_Status status;

    if (strcmp(kind, "sends") == 0 && (rank == odd || rank == next)) {
        MPI_Send(in, LARGE, MPI_INT, rank == odd ? next : odd, 7, MPI_COMM_WORLD);
    } else if (strcmp(kind, "tag") == 0) {
        if (rank == odd)
            receive(next, 7);
        if (rank == next)
            MPI_Send(in, 8, MPI_INT, odd, 8, MPI_COMM_WORLD);
    } else if (strcmp(kind, "communicator") == 0) {
        if (rank == odd)
            receive(next, 7);
        if (rank == next)
            MPI_Send(in, 8, MPI_INT, odd, 7, other);
    } else if (strcmp(kind, "missing_send") == 0 && rank == odd) {
        receive(next, 7);
    } else if (strcmp(kind, "missing_receive") == 0 && rank == odd) {
        MPI_Ssend(in, 8, MPI_INT, next, 7, MPI_COMM_WORLD);
    } else if (strcmp(kind, "receives") == 0) {
        if (rank == odd || rank == next || rank == third)
            receive(rank == odd ? next : rank == next ? third : odd, 7);
    } else if (strcmp(kind, "ended") == 0) {
        if (rank == odd)
            receive(next, 7);
        MPI_Finalize();
        exit(0);
    } else if (strcmp(kind, "any_source") == 0 && rank == odd) {
        receive(MPI_ANY_SOURCE, 7);
    } else if (strcmp(kind, "waitall") == 0) {
        if (rank == odd) {
            MPI_Irecv(out, 8, MPI_INT, next, 7, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(out + 64, 8, MPI_INT, third, 7, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        if (rank == third)
            MPI_Send(in, 8, MPI_INT, odd, 7, MPI_COMM_WORLD);
    } else if (strcmp(kind, "destination") == 0) {
        const int to = rank == odd ? before : (rank + 1) % size;

        MPI_Sendrecv(in, 8, MPI_INT, to, 5, out, 8, MPI_INT, (rank + size - 1) % size, 5,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(kind, "probe") == 0) {
        if (rank == odd)
            MPI_Probe(next, 7, MPI_COMM_WORLD, &status);
        if (rank == next)
            MPI_Send(in, 8, MPI_INT, odd, 8, MPI_COMM_WORLD);
    } else if (strcmp(kind, "computing") == 0 || strcmp(kind, "files") == 0) {
        if (rank == odd)
            receive(next, 7);
        if (rank == next && strcmp(kind, "files") == 0)
            write_files(3600);
        if (rank == next)
            compute(3600);
    } else if (strcmp(kind, "chain") == 0) {
        MPI_Comm pair;

        MPI_Comm_split(MPI_COMM_WORLD, rank == next || rank == third, rank, &pair);
        if (rank == odd)
            receive(next, 7);
        if (rank == third)
            for (;;)
                pause();
        MPI_Barrier(pair);
    }
}

/* Send a message after each computation that lasts some seconds. */
static void slow_messages(void)
{
    for (int i = 0; i < 2; i++) {
        if (rank == i % size) {
            compute(8);
            for (int peer = 0; peer < size; peer++)
                if (peer != rank)
                    MPI_Send(in, LARGE, MPI_INT, peer, i, MPI_COMM_WORLD);
        } else {
            MPI_Recv(out, LARGE, MPI_INT, i % size == 0 ? MPI_ANY_SOURCE : i % size, i,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 6)
        MPI_Abort(MPI_COMM_WORLD, 2);
    in = calloc(LARGE, sizeof(int));
    out = calloc(LARGE, sizeof(int));
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_name(other, "other");
    sound_rounds();
    if (strcmp(argv[1], "slow_messages") == 0)
        slow_messages();
    else
        fault(argv[1], atoi(argv[3]));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
