/* Calls that only MPI libraries of MPI 4.1 have, on 2 ranks.
 *
 * Rank 0 sends a message from each kind of attached buffer and flushes the buffer. Then it asks for
 * the status of two receives until both are complete, with each form of the call. Rank 1 sleeps
 * LATE_MS before it receives or sends. Rank 0 prints the number of its calls in vain.
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { BYTES = 1 << 20, LATE_MS = 30 }; /* more than a library sends without its receiver */
static char message[BYTES], space[2 * BYTES];
static int rank, in_vain;

static void sleep_late(void)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000};

    nanosleep(&late, NULL);
}

static void send_buffered(void)
{
    if (rank == 0) {
        MPI_Bsend(message, BYTES, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    } else {
        sleep_late();
        MPI_Recv(message, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void complete(MPI_Request request)
{
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void buffers(void)
{
    MPI_Request request;
    MPI_Session session;
    char *detached;
    int bytes;

    MPI_Buffer_attach(space, sizeof space);
    send_buffered();
    MPI_Buffer_flush();
    MPI_Buffer_iflush(&request);
    complete(request);
    MPI_Buffer_detach(&detached, &bytes);

    MPI_Comm_attach_buffer(MPI_COMM_WORLD, space, sizeof space);
    send_buffered();
    MPI_Comm_flush_buffer(MPI_COMM_WORLD);
    MPI_Comm_iflush_buffer(MPI_COMM_WORLD, &request);
    complete(request);
    MPI_Comm_detach_buffer(MPI_COMM_WORLD, &detached, &bytes);

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_attach_buffer(session, space, sizeof space);
    MPI_Session_flush_buffer(session);
    MPI_Session_iflush_buffer(session, &request);
    complete(request);
    MPI_Session_detach_buffer(session, &detached, &bytes);
    MPI_Session_finalize(&session);
}

static void all(MPI_Request requests[])
{
    int found = 0;

    while (MPI_Request_get_status_all(2, requests, &found, MPI_STATUSES_IGNORE), !found)
        in_vain++;
}

/* Until the first request is complete, then until the second one is. */
static void any(MPI_Request requests[])
{
    int index = -1, found = 0;

    for (int i = 0; i < 2; i++)
        while (MPI_Request_get_status_any(1, requests + i, &index, &found, MPI_STATUS_IGNORE),
               !found)
            in_vain++;
}

/* Until one of the requests is complete: MPICH makes no progress once it finds a complete one. */
static void some(MPI_Request requests[])
{
    int count = 0, indices[2];

    while (MPI_Request_get_status_some(2, requests, &count, indices, MPI_STATUSES_IGNORE),
           count == 0)
        in_vain++;
}

static void statuses(void (*ask)(MPI_Request requests[]))
{
    int values[2];
    MPI_Request requests[2];

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++)
        if (rank == 0) {
            MPI_Irecv(&values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
        } else {
            sleep_late();
            MPI_Send(&rank, 1, MPI_INT, 0, i, MPI_COMM_WORLD);
        }
    if (rank > 0)
        return;
    ask(requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (values[0] != 1 || values[1] != 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    buffers();
    statuses(all);
    statuses(any);
    statuses(some);
    if (rank == 0)
        printf("%d\n", in_vain);
    MPI_Finalize();
    return 0;
}
