/* Programs with a delay and a repair switch. Arguments: the program's name, "faulty", "repaired" or
 * "usual", and a factor of all work. In "usual" programs no rank exceeds the usual work, also where
 * the repair is another. Work is sleeping, so that few processors suffice. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { STEPS = 24, LARGE = 1 << 20, TAG = 3 };

static int rank, ranks, factor;
static bool faulty, usual;
static char sent[2][LARGE], received[2][LARGE];

static void work(int us)
{
    const long long ns = 1000LL * factor * us;
    const struct timespec t = {ns / 1000000000, ns % 1000000000};

    nanosleep(&t, NULL);
}

/* Open MPI calls it while a rank waits. Sleeping leaves the processors to other ranks. */
int sched_yield(void)
{
    const struct timespec t = {0, 50000};

    return nanosleep(&t, NULL);
}

static void compute(int us)
{
    struct timespec t;
    const double begin =
        (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), (double)t.tv_sec * 1e6 + t.tv_nsec * 1e-3);

    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((double)t.tv_sec * 1e6 + t.tv_nsec * 1e-3 < begin + factor * us);
}

/* Return the delay of the calling rank: `us` on the late rank of the faulty program, else 0. */
static int delay(int late, int us)
{
    return faulty && rank == late ? us : 0;
}

static void meet(void)
{
    double one = 1, sum;

    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Exchange messages with both neighbours in a ring, and work before the completion. */
static void exchange(int bytes, int overlap_us)
{
    MPI_Request r[4];
    const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;

    MPI_Irecv(received[0], bytes, MPI_CHAR, left, TAG, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(received[1], bytes, MPI_CHAR, right, TAG, MPI_COMM_WORLD, &r[1]);
    MPI_Isend(sent[0], bytes, MPI_CHAR, right, TAG, MPI_COMM_WORLD, &r[2]);
    MPI_Isend(sent[1], bytes, MPI_CHAR, left, TAG, MPI_COMM_WORLD, &r[3]);
    if (overlap_us > 0)
        work(overlap_us);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
}

static void send_to(int to, int bytes)
{
    MPI_Send(sent[0], bytes, MPI_CHAR, to, TAG, MPI_COMM_WORLD);
}

static void receive_from(int from, int bytes)
{
    MPI_Recv(received[0], bytes, MPI_CHAR, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- collectives */

static void step_collective(int step)
{
    (void)step;
    work(3000 + delay(2, 6000));
    meet();
}

static void step_computing(int step)
{
    (void)step;
    compute(1000 + delay(1, 4000));
    meet();
}

/* Each rank has another load; the repaired program balances them. */
static void step_unbalanced(int step)
{
    static const int load[] = {2000, 4000, 3000, 11000};

    (void)step;
    if (usual)
        work(rank == 3 ? 3000 : load[rank % 4]);
    else
        work(faulty ? load[rank % 4] : 5000);
    meet();
}

static void step_growing(int step)
{
    work(3000 + delay(1, 500 * step));
    meet();
}

static void step_periodic(int step)
{
    work(3000 + (step % 4 == 1 ? delay(2, 20000) : 0));
    meet();
}

static void step_moving(int step)
{
    work(3000 + delay(step % ranks, 6000));
    meet();
}

/* Two ranks have the same node. */
static void step_node(int step)
{
    (void)step;
    work(4000 + delay(2, 5000) + delay(3, 5000));
    exchange(8, 0);
    meet();
}

static void step_two_causes(int step)
{
    (void)step;
    work(3000 + delay(1, 6000));
    meet();
    work(2000 + (rank == 3 ? 4000 : 0));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The delay of rank 3 hides behind that of rank 1, and remains after the repair. */
static void step_hidden(int step)
{
    (void)step;
    work(3000 + delay(1, 8000) + (rank == 3 && !usual ? 5000 : 0));
    exchange(8, 0);
    meet();
}

static void step_communicators(int step)
{
    static MPI_Comm rows, columns;
    double one = 1, sum;

    if (step == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &rows);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &columns);
    }
    work(3000 + delay(1, 6000));
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, rows);
    work(1000 + (rank == 2 ? 2000 : 0));
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, columns);
}

static void step_bcast(int step)
{
    (void)step;
    work(3000 + delay(0, 6000));
    MPI_Bcast(sent[0], 8, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (step % 10 == 9)
        meet();
}

/* The root waits for all ranks, of which the late one hides those with other loads. */
static void step_reduce(int step)
{
    double one = 1, sum;

    (void)step;
    work(2000 + 1500 * (rank == 1) + delay(2, 7000));
    MPI_Reduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    work(rank == 0 ? 2000 : 1000);
    MPI_Bcast(&sum, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

/* Work overlaps the collective and hides a part of the delay before it. */
static void step_iallreduce(int step)
{
    double one = 1, sum;
    MPI_Request r;

    (void)step;
    work(2000 + delay(1, 7000));
    MPI_Iallreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
    work(rank == 1 ? 1000 : 4000);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* ---- messages */

static void step_halo(int step)
{
    (void)step;
    for (int i = 0; i < 3; i++) {
        work(1500 + (i == 0 ? delay(2, 6000) : 0));
        exchange(8, 0);
    }
    meet();
}

static void step_halo_alone(int step)
{
    (void)step;
    work(3000 + delay(2, 5000));
    exchange(8, 0);
}

static void step_overlap(int step)
{
    (void)step;
    work(2000 + delay(1, 6000));
    exchange(8, 3000);
}

static void step_pipeline(int step)
{
    (void)step;
    if (rank > 0)
        receive_from(rank - 1, 8);
    work(3000 + delay(2, 5000));
    if (rank < ranks - 1)
        send_to(rank + 1, 8);
}

/* The stage before the late one is the second slowest. */
static void step_bottlenecks(int step)
{
    (void)step;
    if (rank > 0)
        receive_from(rank - 1, 8);
    work(2000 + (rank == 1 ? 2000 : 0) + delay(2, 7000));
    if (rank < ranks - 1)
        send_to(rank + 1, 8);
}

/* Rank 0 receives the results of workers with different loads in order. */
static void step_master(int step)
{
    (void)step;
    if (rank == 0) {
        for (int worker = 1; worker < ranks; worker++)
            send_to(worker, 8);
        for (int worker = 1; worker < ranks; worker++)
            receive_from(worker, 8);
    } else {
        receive_from(0, 8);
        work(2000 + 1000 * rank + delay(1, 8000));
        send_to(0, 8);
    }
}

static void step_any_source(int step)
{
    (void)step;
    if (rank == 0) {
        for (int worker = 1; worker < ranks; worker++)
            receive_from(MPI_ANY_SOURCE, 8);
        for (int worker = 1; worker < ranks; worker++)
            send_to(worker, 8);
    } else {
        work(3000 + 500 * rank + delay(1, 7000));
        send_to(0, 8);
        receive_from(0, 8);
    }
}

static void step_sendrecv(int step)
{
    (void)step;
    work(3000 + delay(1, 5000));
    MPI_Sendrecv(sent[0], 8, MPI_CHAR, (rank + 1) % ranks, TAG, received[0], 8, MPI_CHAR,
                 (rank + ranks - 1) % ranks, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Synchronous sends wait for a late receiver. */
static void step_late_receiver(int step)
{
    (void)step;
    if (rank % 2 == 0) {
        work(3000);
        MPI_Ssend(sent[0], 8, MPI_CHAR, rank + 1, TAG, MPI_COMM_WORLD);
    } else {
        work(2000 + delay(1, 7000));
        receive_from(rank - 1, 8);
    }
    if (step % 10 == 9)
        meet();
}

static void step_rendezvous(int step)
{
    (void)step;
    work(4000 + delay(1, 6000));
    if (rank % 2 == 0)
        send_to(rank + 1, LARGE);
    else
        receive_from(rank - 1, LARGE);
    exchange(8, 0);
}

/* The late rank needs a message that comes in time only because it is late. */
static void step_slack(int step)
{
    MPI_Request r;

    (void)step;
    MPI_Irecv(received[0], 8, MPI_CHAR, rank ^ 1, TAG, MPI_COMM_WORLD, &r);
    work(3000 + (rank == 1 ? 4000 : 0) + delay(0, 7000));
    send_to(rank ^ 1, 8);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    work(rank == 1 ? 1000 : 4000);
    meet();
}

/* A sweep from the first rank to the last one, and back. */
static void step_sweep(int step)
{
    const int from = step % 2 == 0 ? rank - 1 : rank + 1, to = 2 * rank - from;

    if (from >= 0 && from < ranks)
        receive_from(from, 8);
    work(1500 + delay(1, 4000));
    if (to >= 0 && to < ranks)
        send_to(to, 8);
}

#define PROGRAM(name) {#name, step_##name}
static const struct program {
    const char *name;
    void (*step)(int step);
} programs[] = {
    PROGRAM(collective), PROGRAM(computing),     PROGRAM(unbalanced), PROGRAM(growing),
    PROGRAM(periodic),   PROGRAM(moving),        PROGRAM(node),       PROGRAM(two_causes),
    PROGRAM(hidden),     PROGRAM(communicators), PROGRAM(bcast),      PROGRAM(reduce),
    PROGRAM(iallreduce), PROGRAM(halo),          PROGRAM(halo_alone), PROGRAM(overlap),
    PROGRAM(pipeline),   PROGRAM(bottlenecks),   PROGRAM(master),     PROGRAM(any_source),
    PROGRAM(sendrecv),   PROGRAM(late_receiver), PROGRAM(rendezvous), PROGRAM(slack),
    PROGRAM(sweep),
};

int main(int argc, char **argv)
{
    const struct program *p = NULL;

    prctl(PR_SET_TIMERSLACK, 1UL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; argc == 4 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, argv[1]) == 0)
            p = &programs[i];
    if (p == NULL) {
        fprintf(stderr, "usage: %s PROGRAM faulty|repaired|usual FACTOR\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    faulty = strcmp(argv[2], "faulty") == 0;
    usual = strcmp(argv[2], "usual") == 0;
    factor = atoi(argv[3]);
    for (int step = 0; step < STEPS; step++)
        p->step(step);
    MPI_Finalize();
    return 0;
}
