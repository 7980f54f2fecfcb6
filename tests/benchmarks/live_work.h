/* Work, planted delays and their times for the programs of live_causes.py, which include this file.
 * Work is sleeping, so that few processors suffice for many ranks. */
#ifndef LIVE_WORK_H
#define LIVE_WORK_H

#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct program {
    const char *name;
    void (*step)(int step);
};

static int rank, ranks, factor = 1;
static bool is_repaired; /* the program runs without its delay */
static long nap_ns = 50000;
static double planted_ns, planted_processor_ns; /* of this rank, over the run */
static double begun_ns, begun_processor_ns;

/* Open MPI calls it while a rank waits. Sleeping leaves the processors to other ranks. */
int sched_yield(void)
{
    const struct timespec t = {0, nap_ns};

    return nanosleep(&t, NULL);
}

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void work(int us)
{
    const long long ns = 1000LL * factor * us;
    const struct timespec t = {ns / 1000000000, ns % 1000000000};

    nanosleep(&t, NULL);
}

static void compute(int us)
{
    const double end = now(CLOCK_THREAD_CPUTIME_ID) + 1e3 * factor * us;

    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        continue;
}

/* The planted delay is what runs between these calls. */
static void plant_begin(void)
{
    begun_ns = now(CLOCK_MONOTONIC);
    begun_processor_ns = now(CLOCK_THREAD_CPUTIME_ID);
}

static void plant_end(void)
{
    planted_ns += now(CLOCK_MONOTONIC) - begun_ns;
    planted_processor_ns += now(CLOCK_THREAD_CPUTIME_ID) - begun_processor_ns;
}

/* Return whether the calling rank is late. No rank of a repaired program is. */
static bool is_late(int late_rank)
{
    return rank == late_rank && !is_repaired;
}

/* Sleep longer on one rank. */
static void late(int late_rank, int us)
{
    if (!is_late(late_rank) || us <= 0)
        return;
    plant_begin();
    work(us);
    plant_end();
}

static void meet(void)
{
    double one = 1, sum;

    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Run a program of a table. Arguments: its name, the number of steps, and a factor of all work. With
 * the variable LIVE_REPAIRED it has no delay. */
static int run(int argc, char **argv, const struct program *programs, size_t count)
{
    const struct program *p = NULL;
    int level;

    prctl(PR_SET_TIMERSLACK, 1UL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; argc == 4 && i < count; i++)
        if (strcmp(programs[i].name, argv[1]) == 0)
            p = &programs[i];
    if (p == NULL) {
        fprintf(stderr, "usage: %s PROGRAM STEPS FACTOR\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    factor = atoi(argv[3]);
    is_repaired = getenv("LIVE_REPAIRED") != NULL;
    nap_ns *= factor;
    for (int step = 0, steps = atoi(argv[2]); step < steps; step++)
        p->step(step);
    if (planted_ns > 0)
        printf("planted %d %.0f %.0f\n", rank, planted_ns, planted_processor_ns);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

#endif
