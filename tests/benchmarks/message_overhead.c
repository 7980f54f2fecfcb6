/* The loops that tests/benchmarks/message_overhead.py times: messages of a rank to itself.
 *
 *     message_overhead BATCHES
 *
 * Calls by their PMPI names are not recorded. They complete the other side of each message. A pause
 * follows each batch, because a program that does nothing but send is recorded as sums only. With
 * 1,000 records between two pauses, recording takes less than 2 % of the time.
 * Prints, for each loop, its name and nanoseconds of a message in the fastest batch; then the same
 * for two readings of the clock.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGES = 500, MANY = 4, PAUSE_NS = 2000000 };

static char in[MANY], out;
static MPI_Request requests[MANY];
static volatile double unused;

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void sends(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        PMPI_Irecv(in, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, requests);
        MPI_Send(&out, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF);
        PMPI_Wait(requests, MPI_STATUS_IGNORE);
    }
}

static void receives(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        PMPI_Isend(&out, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, requests);
        MPI_Recv(in, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        PMPI_Wait(requests, MPI_STATUS_IGNORE);
    }
}

static void receives_nonblocking(void)
{
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Irecv(in, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, requests);
        PMPI_Send(&out, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
}

static void receives_at_once(void)
{
    for (int i = 0; i < MESSAGES / MANY; i++) {
        for (int k = 0; k < MANY; k++)
            MPI_Irecv(in + k, 1, MPI_CHAR, 0, k, MPI_COMM_SELF, requests + k);
        for (int k = 0; k < MANY; k++)
            PMPI_Send(&out, 1, MPI_CHAR, 0, k, MPI_COMM_SELF);
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    }
}

static void probes_in_vain(void)
{
    int found;

    for (int i = 0; i < MESSAGES; i++)
        MPI_Iprobe(0, 1, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}

static void tests_in_vain(void)
{
    MPI_Request request;
    int found;

    PMPI_Irecv(in, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF, &request);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Test(&request, &found, MPI_STATUS_IGNORE);
    PMPI_Send(&out, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void clock_readings(void)
{
    for (int i = 0; i < MESSAGES; i++)
        unused = now_ns() + now_ns();
}

static const struct {
    const char *name;
    void (*run)(void);
} loops[] = {{"Send", sends},
             {"Recv", receives},
             {"Irecv+Wait", receives_nonblocking},
             {"Irecv+Waitall", receives_at_once},
             {"Iprobe in vain", probes_in_vain},
             {"Test in vain", tests_in_vain},
             {"clock", clock_readings}};

int main(int argc, char **argv)
{
    const long batches = argc > 1 ? atol(argv[1]) : 1;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    MPI_Init(&argc, &argv);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        double fastest = 1e30;

        for (long batch = 0; batch < batches; batch++) {
            const double before = now_ns();

            loops[i].run();
            const double took = (now_ns() - before) / MESSAGES;

            fastest = took < fastest ? took : fastest;
            nanosleep(&pause, NULL);
        }
        printf("%s %.1f\n", loops[i].name, fastest);
    }
    MPI_Finalize();
    return 0;
}
