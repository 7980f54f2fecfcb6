/* Programs that poll.
 *
 *     polls CASE [STEPS]
 *
 *   master      3 ranks: rank 0 polls with MPI_Iprobe and pauses, the other ranks work and send
 *   spin        2 ranks: rank 0 polls with MPI_Test without pauses, rank 1 sleeps before each send
 *   sites       2 ranks: the same with MPI_Iprobe of two tags at two call sites
 *   overlap     2 ranks: rank 0 works, and tests its receive between pieces of work
 *   window      2 ranks: rank 0 polls with MPI_Win_test, rank 1 sleeps before MPI_Win_complete
 *   partitions  2 ranks: rank 0 polls with MPI_Parrived in every second step, else it waits. Rank 1
 *               sleeps before its last MPI_Pready_range
 *   killed      2 ranks: rank 0 polls with MPI_Iprobe until rank 1 kills it
 *
 * Rank 0 prints the number of its calls in vain, and the processor time of its work in ns.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_US = 2000, LATE_US = 30000, WORK_NS = 3000000, PARTITIONS = 4 };
static int rank, size, number, steps = 20;
static long in_vain, worked_ns;

static long clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(void)
{
    const long begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < begin + WORK_NS)
        ;
    worked_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static void master(void)
{
    for (int i = 0; i < steps * (size - 1) && rank == 0; i++) {
        int found = 0;

        for (;;) {
            MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
            if (found)
                break;
            in_vain++;
            usleep(PAUSE_US);
        }
        MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < steps && rank > 0; i++) {
        usleep(LATE_US * (1 + rank) / 2); // rank 1 sends the first message, rank 2 the last ones
        MPI_Send(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
}

static void send_late(int tag)
{
    for (int i = 0; i < steps; i++) {
        usleep(LATE_US);
        MPI_Send(&number, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
        MPI_Recv(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void spin(void)
{
    if (rank == 1) {
        send_late(0);
        return;
    }
    for (int i = 0; i < steps; i++) {
        MPI_Request request;
        int found = 0;

        MPI_Irecv(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        while (MPI_Test(&request, &found, MPI_STATUS_IGNORE), !found)
            in_vain++;
        MPI_Send(&number, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    }
}

static void sites(void)
{
    if (rank == 1) {
        send_late(2);
        return;
    }
    for (int i = 0; i < steps; i++) {
        MPI_Status status;
        int found = 0;

        for (;;) {
            MPI_Iprobe(1, 1, MPI_COMM_WORLD, &found, &status);
            in_vain++;
            MPI_Iprobe(1, 2, MPI_COMM_WORLD, &found, &status);
            if (found)
                break;
            in_vain++;
        }
        MPI_Recv(&number, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &status);
        MPI_Send(&number, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    }
}

static void overlap(void)
{
    MPI_Request request;
    int found = 0;

    if (rank == 1) {
        MPI_Recv(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        return;
    }
    MPI_Irecv(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    for (int i = 0; i < steps; i++) {
        work();
        MPI_Test(&request, &found, MPI_STATUS_IGNORE);
        in_vain++;
    }
    MPI_Send(&number, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void window(void)
{
    const int other = 1 - rank;
    MPI_Group world, others;
    MPI_Win made;
    int found, *memory;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &other, &others);
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &made);
    for (int i = 0; i < steps; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Win_post(others, 0, made);
            while (MPI_Win_test(made, &found), !found)
                in_vain++;
        } else {
            MPI_Win_start(others, 0, made);
            usleep(LATE_US);
            MPI_Win_complete(made);
        }
    }
    MPI_Win_free(&made);
    MPI_Group_free(&others);
    MPI_Group_free(&world);
}

static void partitions(void)
{
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
    static int values[PARTITIONS], other[PARTITIONS];
    MPI_Request request, ordinary;

    if (rank == 1)
        MPI_Psend_init(values, PARTITIONS, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    else
        MPI_Precv_init(values, PARTITIONS, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    for (int i = 0; i < steps; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Start(&request);
        if (rank == 1) { /* an ordinary message with the same tag between */
            MPI_Isend(other, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &ordinary);
            MPI_Pready(0, request);
            usleep(LATE_US);
            MPI_Pready_range(1, PARTITIONS - 1, request);
        } else {
            MPI_Irecv(other, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &ordinary);
            if (i % 2 == 0)
                for (int found = 0; MPI_Parrived(request, PARTITIONS - 1, &found), !found;)
                    in_vain++;
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Wait(&ordinary, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
#endif
}

static void killed(void)
{
    long process = getpid();
    int found = 0;

    if (rank == 1) {
        MPI_Recv(&process, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(20 * LATE_US);
        kill((pid_t)process, SIGKILL);
        for (;;)
            pause();
    }
    MPI_Send(&process, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
    while (MPI_Iprobe(1, 0, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE), !found)
        in_vain++;
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"master", master},   {"spin", spin},     {"sites", sites},
             {"overlap", overlap}, {"window", window}, {"partitions", partitions},
             {"killed", killed}};

int main(int argc, char **argv)
{
    if (argc > 2)
        steps = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    if (rank == 0)
        printf("%ld %ld\n", in_vain, worked_ns);
    MPI_Finalize();
    return 0;
}
