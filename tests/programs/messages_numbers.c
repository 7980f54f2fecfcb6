/* Cases in which the number of a message or the peer of a receive is hard to know, one per run; the
 * argument names the case. All sends are eager. For 2 ranks. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 1000, TAG = 5, COPIES = 100, STARTS = 2, PARTITIONS = 4 };

static int rank;
static char in[2][LONGEST], out[LONGEST];

/* Rank 1 sends messages of 1, 2, ... bytes to rank 0. */
static void send_counted(int count, const int *tags)
{
    for (int i = 0; rank == 1 && i < count; i++)
        MPI_Send(out, i + 1, MPI_CHAR, 0, tags[i], MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void receive(int source, int tag)
{
    MPI_Status status;

    MPI_Recv(in[0], LONGEST, MPI_CHAR, source, tag, MPI_COMM_WORLD, &status);
}

/* A receive that is freed while it is active gets the first message. */
static void freed(void)
{
    MPI_Request request;

    if (rank == 0) {
        MPI_Irecv(in[1], LONGEST, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    send_counted(2, (const int[]){TAG, TAG});
    if (rank == 0)
        receive(1, TAG);
}

/* A receive that fails takes the first message. */
static void truncated(void)
{
    MPI_Status status;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    send_counted(3, (const int[]){TAG + 1, TAG, TAG});
    if (rank == 0) {
        receive(1, TAG + 1);
        MPI_Recv(in[0], 1, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        receive(1, TAG);
    }
}

/* Tags that share a counter, received in another order than sent. */
static void crossed_tags(void)
{
    send_counted(6, (const int[]){0, 16, 0, 16, 0, 0});
    for (int i = 0; rank == 0 && i < 6; i++)
        receive(1, i < 2 ? 16 : 0);
}

static void receive_start(int i, int source, MPI_Request *request)
{
    MPI_Irecv(in[i], LONGEST, MPI_CHAR, source, TAG, MPI_COMM_WORLD, request);
}

/* Two receives from any source are completed in the opposite order. */
static void opposite_waits(void)
{
    MPI_Request requests[2];
    MPI_Status status;

    for (int i = 0; rank == 0 && i < 2; i++)
        receive_start(i, MPI_ANY_SOURCE, &requests[i]);
    send_counted(3, (const int[]){TAG, TAG, TAG});
    for (int i = 1; rank == 0 && i >= 0; i--)
        MPI_Wait(&requests[i], &status);
    if (rank == 0)
        receive(1, TAG);
}

/* A receive from any source gets the message before that of a blocking receive. */
static void blocking_beside(void)
{
    MPI_Request request;
    MPI_Status status;

    if (rank == 0)
        receive_start(1, MPI_ANY_SOURCE, &request);
    send_counted(3, (const int[]){TAG, TAG, TAG});
    if (rank == 0) {
        receive(1, TAG);
        MPI_Wait(&request, &status);
        receive(1, TAG);
    }
}

/* An earlier receive from a known source leaves no doubt about a later one from any source. */
static void earlier_receive(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    if (rank == 0) {
        receive_start(0, 1, &requests[0]);
        receive_start(1, MPI_ANY_SOURCE, &requests[1]);
    }
    send_counted(2, (const int[]){TAG, TAG});
    if (rank == 0) {
        MPI_Wait(&requests[1], &statuses[1]);
        MPI_Wait(&requests[0], &statuses[0]);
    }
}

/* A persistent receive from any source is started again. */
static void persistent(void)
{
    MPI_Request request;
    MPI_Status status;

    send_counted(STARTS, (const int[]){TAG, TAG});
    if (rank != 0)
        return;
    MPI_Recv_init(in[0], LONGEST, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request);
    for (int i = 0; i < STARTS; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, &status);
    }
    MPI_Request_free(&request);
}

/* Many equivalent communicators are used at once, then freed in another order and made again. */
static void equivalent(void)
{
    static MPI_Comm copies[COPIES];
    MPI_Status status;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COPIES; i++)
            MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]);
        for (int i = 0; i < COPIES; i++)
            if (rank == 1)
                MPI_Send(out, i + 1, MPI_CHAR, 0, TAG, copies[i]);
            else
                MPI_Recv(in[0], LONGEST, MPI_CHAR, 1, TAG, copies[i], &status);
        for (int i = 0; i < COPIES; i++)
            MPI_Comm_free(&copies[i]);
    }
}

static void *cancel_later(void *request)
{
    usleep(100000);
    MPI_Cancel(request);
    return NULL;
}

/* Another thread cancels the receive for which a Wait waits. */
static void cancelled(void)
{
    MPI_Request request;
    MPI_Status status;
    pthread_t thread;

    if (rank == 0) {
        receive_start(1, 1, &request);
        MPI_Request copy = request;

        pthread_create(&thread, NULL, cancel_later, &copy);
        MPI_Wait(&request, &status);
        pthread_join(thread, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    send_counted(1, (const int[]){TAG});
    if (rank == 0)
        receive(1, TAG);
}

/* Post a receive and cancel it. */
static void receive_cancelled(int source)
{
    MPI_Request request;

    receive_start(1, source, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A receive is cancelled that is the only one of its tag, or for any source. */
static void cancelled_alone(void)
{
    for (int i = 0; rank == 0 && i < 2; i++)
        receive_cancelled(i == 0 ? 1 : MPI_ANY_SOURCE);
    MPI_Barrier(MPI_COMM_WORLD);
    send_counted(1, (const int[]){TAG});
    if (rank == 0)
        receive(1, TAG);
}

/* A receive is cancelled before a later receive with the same tag has its message. */
static void cancelled_first(void)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    for (int i = 0; rank == 0 && i < 2; i++)
        receive_start(i, 1, &requests[i]);
    if (rank == 0)
        MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    send_counted(1, (const int[]){TAG});
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

/* The message of a receive has come before the receive is cancelled. */
static void cancelled_late(void)
{
    send_counted(2, (const int[]){TAG, TAG});
    if (rank == 0) {
        MPI_Probe(1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        receive_cancelled(1);
        receive(1, TAG);
    }
}

/* Calls on MPI_PROC_NULL have no message, and leave no doubt about later messages. */
static void null_process(void)
{
    MPI_Message message;

    if (rank == 0) {
        MPI_Probe(MPI_PROC_NULL, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Mprobe(MPI_PROC_NULL, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(in[0], LONGEST, MPI_CHAR, &message, MPI_STATUS_IGNORE);
        MPI_Sendrecv_replace(in[0], 1, MPI_CHAR, 1, TAG, MPI_PROC_NULL, TAG, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        MPI_Send(out, 1, MPI_CHAR, MPI_PROC_NULL, TAG, MPI_COMM_WORLD);
    } else {
        receive(0, TAG);
    }
    send_counted(1, (const int[]){TAG});
    if (rank == 0)
        receive(1, TAG);
}

/* Rank 0 cancels a message to itself, which MPICH can do, then sends itself two more. If the library
 * does not cancel the message, it is received. */
static void send_cancelled(int (*start)(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                                        MPI_Request *))
{
    MPI_Request request;
    MPI_Status status;
    int done = 0, cancelled = 0;

    if (rank != 0)
        return;
    start(out, 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    for (int i = 0; !done && i < 100; i++)
        MPI_Test(&request, &done, &status);
    if (done)
        MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled)
        receive(0, TAG);
    MPI_Wait(&request, &status);
    for (int i = 2; i < 4; i++) {
        MPI_Isend(out, i, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
        receive(0, TAG);
        MPI_Wait(&request, &status);
    }
}

static void cancelled_send(void)
{
    send_cancelled(MPI_Issend);
}

/* The recorder has no entry for the request of a short standard send. */
static void cancelled_short_send(void)
{
    send_cancelled(MPI_Isend);
}

static void *send_synchronously(void *unused)
{
    MPI_Ssend(out, 1, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    return unused;
}

/* Two threads of rank 1 send with one tag at once. */
static void overlapping(void)
{
    MPI_Status status;
    pthread_t thread;

    if (rank == 1) {
        pthread_create(&thread, NULL, send_synchronously, NULL);
        MPI_Recv(in[0], LONGEST, MPI_CHAR, 0, TAG + 1, MPI_COMM_WORLD, &status);
        MPI_Send(out, 2, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
        MPI_Send(out, 0, MPI_CHAR, 0, TAG + 1, MPI_COMM_WORLD);
        pthread_join(thread, NULL);
        MPI_Send(out, 3, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    } else {
        PMPI_Probe(1, TAG, MPI_COMM_WORLD, &status); /* the thread is in MPI_Ssend */
        MPI_Send(out, 0, MPI_CHAR, 1, TAG + 1, MPI_COMM_WORLD);
        receive(1, TAG + 1);
        for (int i = 0; i < 3; i++)
            receive(1, TAG);
    }
}

/* Rank 0 ignores the status of receives from any source, then those of a MPI_Waitall. */
static void ignored_status(void)
{
    MPI_Request requests[2];

    send_counted(5, (const int[]){TAG, TAG, TAG, TAG, TAG});
    for (int i = 0; rank == 0 && i < 2; i++) {
        int done = 0;

        receive_start(i, MPI_ANY_SOURCE, requests);
        while (i == 1 && !done)
            MPI_Test(requests, &done, MPI_STATUS_IGNORE);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    for (int i = 0; rank == 0 && i < 2; i++)
        receive_start(i, 1, &requests[i]);
    if (rank == 0) {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        receive(1, TAG);
    }
}

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
static void partitioned(void)
{
    MPI_Request request;
    MPI_Status status;

    if (rank == 1)
        MPI_Psend_init(out, PARTITIONS, 5, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    else
        MPI_Precv_init(in[0], PARTITIONS, 5, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    for (int i = 0; i < STARTS; i++) {
        MPI_Start(&request);
        for (int j = 0; rank == 1 && j < PARTITIONS; j++)
            MPI_Pready(j, request);
        MPI_Wait(&request, &status);
    }
    MPI_Request_free(&request);
}
#endif

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"freed", freed},
             {"truncated", truncated},
             {"crossed_tags", crossed_tags},
             {"opposite_waits", opposite_waits},
             {"blocking_beside", blocking_beside},
             {"earlier_receive", earlier_receive},
             {"persistent", persistent},
             {"equivalent", equivalent},
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
             {"partitioned", partitioned},
#endif
             {"cancelled_send", cancelled_send},
             {"cancelled_short_send", cancelled_short_send},
             {"overlapping", overlapping},
             {"ignored_status", ignored_status},
             {"cancelled", cancelled},
             {"cancelled_alone", cancelled_alone},
             {"cancelled_first", cancelled_first},
             {"cancelled_late", cancelled_late},
             {"null_process", null_process}};

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    const int has_threads = strcmp(name, "cancelled") == 0 || strcmp(name, "overlapping") == 0;
    const int threads = has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int provided, status = 2;

    MPI_Init_thread(&argc, &argv, threads, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            status = 0;
        }
    MPI_Finalize();
    return status;
}
