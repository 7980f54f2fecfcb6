/* Cases of point-to-point messages with known answers, one per run; the argument names the case.
 * The output of a case is the same in every run. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATE_US = 200000, KILL_US = 300000, BIG = 100000, STARTS = 3, SENTINEL = 0x55 };
enum { PARTS = 8, SHORT_US = 100, RECORDS_OF_A_CHUNK = 2046 };

static int rank, peer;
static char in[2][BIG], out[2][BIG];

/* ---- sums: blocking, nonblocking, persistent and combined calls, and MPI_PROC_NULL */

static void blocking(void)
{
    for (int i = 0; rank == 0 && i < 3; i++)
        MPI_Send(out[0], 10, MPI_CHAR, 1, 1, MPI_COMM_WORLD); /* first send */
    for (int i = 0; rank == 0 && i < 2; i++)
        MPI_Send(out[0], 5, MPI_INT, 1, 2, MPI_COMM_WORLD); /* second send */
    for (int i = 0; rank == 1 && i < 5; i++)
        MPI_Recv(in[0], BIG, MPI_CHAR, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void nonblocking(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPI_Irecv(in[0], BIG, MPI_CHAR, peer, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out[0], 40 + rank, MPI_CHAR, peer, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
}

static void persistent(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPI_Recv_init(in[0], BIG, MPI_CHAR, peer, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out[0], 11, MPI_CHAR, peer, 4, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < STARTS; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void sums(void)
{
    const int to = rank == 0 ? 1 : MPI_PROC_NULL, from = rank == 0 ? MPI_PROC_NULL : 0;

    blocking();
    nonblocking();
    persistent();
    MPI_Sendrecv(out[0], 7, MPI_CHAR, peer, 5, in[0], BIG, MPI_CHAR, peer, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(out[0], 9, MPI_CHAR, to, 6, in[0], BIG, MPI_CHAR, from, 6, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Ssend(out[0], 12, MPI_CHAR, MPI_PROC_NULL, 7, MPI_COMM_WORLD);
    MPI_Probe(MPI_PROC_NULL, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Rsend(out[0], 0, MPI_CHAR, MPI_PROC_NULL, 7, MPI_COMM_WORLD);
}

/* ---- late: rank 0 waits for two messages, of which the second is late */

static void late(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    if (rank == 0) {
        MPI_Irecv(in[0], BIG, MPI_CHAR, 1, 8, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in[1], BIG, MPI_CHAR, 2, 9, MPI_COMM_WORLD, &requests[1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Waitall(2, requests, statuses);
    } else {
        usleep(rank == 1 ? 0 : LATE_US);
        MPI_Send(out[0], 100 * rank, MPI_CHAR, 0, 7 + rank, MPI_COMM_WORLD);
    }
}

/* ---- wildcards whose status the program ignores */

static void any_source(void)
{
    if (rank == 1)
        MPI_Send(out[0], 12, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
    else
        MPI_Recv(in[0], BIG, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void ignored(void)
{
    MPI_Request request;
    MPI_Comm other;

    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 1) {
        for (int tag = 1; tag <= 3; tag++)
            MPI_Send(out[0], tag, MPI_CHAR, 0, tag, MPI_COMM_WORLD);
        MPI_Send(out[0], 4, MPI_CHAR, 0, 4, other);
    } else {
        MPI_Recv(in[0], BIG, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(in[0], BIG, MPI_CHAR, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
        MPI_Recv(in[0], BIG, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in[0], BIG, MPI_CHAR, 1, 4, other, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&other);
}

/* ---- requests with another end than a Wait of their thread */

static void cancelled(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag, bytes;

    if (rank == 0) {
        MPI_Irecv(in[0], BIG, MPI_CHAR, 1, 10, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        MPI_Recv(in[0], BIG, MPI_CHAR, 1, 11, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_CHAR, &bytes);
        printf("cancelled %d, then %d bytes\n", flag, bytes);
    } else {
        MPI_Send(out[0], 13, MPI_CHAR, 0, 11, MPI_COMM_WORLD);
    }
}

static void freed(void)
{
    MPI_Request request;

    if (rank == 0) {
        memset(out[0], 'x', BIG);
        MPI_Isend(out[0], BIG, MPI_CHAR, 1, 12, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        printf("null %d\n", request == MPI_REQUEST_NULL);
    } else {
        MPI_Recv(in[0], BIG, MPI_CHAR, 0, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("received %c\n", in[0][BIG - 1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void *wait_for(void *request)
{
    MPI_Status status;

    MPI_Wait(request, &status);
    printf("source %d, tag %d\n", status.MPI_SOURCE, status.MPI_TAG);
    return NULL;
}

static void other_thread(void)
{
    MPI_Request request;
    pthread_t thread;

    if (rank == 0) {
        MPI_Irecv(in[0], BIG, MPI_CHAR, 1, 13, MPI_COMM_WORLD, &request);
        pthread_create(&thread, NULL, wait_for, &request);
        pthread_join(thread, NULL);
        printf("null %d\n", request == MPI_REQUEST_NULL);
    } else {
        MPI_Send(out[0], 14, MPI_CHAR, 0, 13, MPI_COMM_WORLD);
    }
}

static void unfinished(void)
{
    MPI_Request requests[2];

    MPI_Irecv(in[0], BIG, MPI_CHAR, peer, 14, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out[0], 15, MPI_CHAR, peer, 15, MPI_COMM_WORLD, &requests[1]);
    MPI_Recv(in[1], BIG, MPI_CHAR, peer, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("pending %d\n", requests[0] != MPI_REQUEST_NULL);
}

/* ---- killed: rank 0 gets SIGKILL in a receive */

static void *kill_later(void *unused)
{
    usleep(KILL_US);
    kill(getpid(), SIGKILL);
    return unused;
}

static void killed(void)
{
    pthread_t thread;

    if (rank == 0)
        pthread_create(&thread, NULL, kill_later, NULL);
    MPI_Recv(in[0], BIG, MPI_CHAR, peer, 77 + rank, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- errors: truncated messages */

static int class_of(int error)
{
    int class;

    MPI_Error_class(error, &class);
    return class;
}

/* Print the class of a call's error and all words of its statuses. */
static void show(const char *name, int error, const MPI_Status *statuses, int count)
{
    const int *const words = (const void *)statuses;

    printf("%s: class %d, statuses", name, class_of(error));
    for (size_t i = 0; i < (size_t)count * sizeof *statuses / sizeof *words; i++)
        printf(" %d", words[i]);
    printf("\n");
}

/* Send two messages to rank 0, and return when both are there. Receives of 8 bytes truncate the
 * second. */
static void send_both(void)
{
    if (rank == 1) {
        MPI_Send(out[0], 8, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        MPI_Send(out[0], 32, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void receive_both(MPI_Request *requests)
{
    for (int i = 0; i < 2; i++)
        MPI_Irecv(in[i], 8, MPI_CHAR, 1, 1 + i, MPI_COMM_WORLD, &requests[i]);
}

/* A Testsome may complete one or both. So its error and statuses are printed by request. */
static void test_some(MPI_Request *requests)
{
    int seen = 0, count, indices[2], classes[2] = {-1, -1};
    MPI_Status statuses[2], all[2];

    receive_both(requests);
    while (seen < 2) {
        memset(statuses, SENTINEL, sizeof statuses);
        const int error = MPI_Testsome(2, requests, &count, indices, statuses);

        for (int i = 0; count != MPI_UNDEFINED && i < count; i++, seen++) {
            const int in_status = class_of(error) == MPI_ERR_IN_STATUS;

            classes[indices[i]] = in_status ? class_of(statuses[i].MPI_ERROR) : class_of(error);
            all[indices[i]] = statuses[i];
        }
        if (count == MPI_UNDEFINED)
            break;
    }
    for (int i = 0; i < 2; i++)
        printf("Testsome: class %d, source %d, tag %d\n", classes[i], all[i].MPI_SOURCE,
               all[i].MPI_TAG);
}

static void errors(void)
{
    enum { RECV, WAITALL, TESTSOME, WAIT, SENDRECV, CASES };
    MPI_Request requests[2];
    MPI_Status s[2];
    int waitall_result;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < CASES; i++) {
        send_both();
        memset(s, SENTINEL, sizeof s);
        if (rank == 1)
            continue;
        switch (i) {
        case RECV:
            show("Recv", MPI_Recv(in[0], 8, MPI_CHAR, 1, 1, MPI_COMM_WORLD, s), s, 1);
            show("Recv", MPI_Recv(in[0], 8, MPI_CHAR, 1, 2, MPI_COMM_WORLD, s), s, 1);
            break;
        case WAITALL:
            receive_both(requests);
            waitall_result = MPI_Waitall(2, requests, s);
            for (int j = 0; j < 2; j++) /* MPICH's codes have a serial number */
                s[j].MPI_ERROR = class_of(s[j].MPI_ERROR);
            show("Waitall", waitall_result, s, 2);
            break;
        case TESTSOME: test_some(requests); break;
        case WAIT:
            receive_both(requests);
            for (int j = 0; j < 2; j++)
                show("Wait", MPI_Wait(&requests[j], s), s, 1);
            break;
        default:
            MPI_Recv(in[0], 8, MPI_CHAR, 1, 1, MPI_COMM_WORLD, s);
            memset(s, SENTINEL, sizeof s);
            show("Sendrecv",
                 MPI_Sendrecv(out[0], 1, MPI_CHAR, MPI_PROC_NULL, 1, in[0], 8, MPI_CHAR, 1, 2,
                              MPI_COMM_WORLD, s),
                 s, 1);
        }
    }
}

/* ---- more long calls than a chunk of the log contains, each after a short one */

static void chunks(void)
{
    MPI_Request requests[PARTS];
    int flag;

    for (int i = 0; i < 3 * RECORDS_OF_A_CHUNK / (PARTS + 1); i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            usleep(SHORT_US);
        for (int j = 0; j < PARTS; j++)
            if (rank == 0)
                MPI_Irecv(&in[0][j], 1, MPI_CHAR, 1, j, MPI_COMM_WORLD, &requests[j]);
            else
                MPI_Send(out[0], 1, MPI_CHAR, 0, j, MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Iprobe(1, PARTS, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            MPI_Waitall(PARTS, requests, MPI_STATUSES_IGNORE);
        }
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"sums", sums},
             {"late", late},
             {"any_source", any_source},
             {"ignored", ignored},
             {"cancelled", cancelled},
             {"freed", freed},
             {"other_thread", other_thread},
             {"unfinished", unfinished},
             {"killed", killed},
             {"errors", errors},
             {"chunks", chunks}};

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    int provided, status = 2;

    MPI_Init_thread(&argc, &argv,
                    strcmp(name, "other_thread") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            status = 0;
        }
    MPI_Finalize();
    return status;
}
