/* The loop that tests/benchmarks/overhead.py times: batches of a collective on MPI_COMM_SELF or, with "world",
 * on MPI_COMM_WORLD.
 *
 *     overhead barrier|allreduce BATCHES CALLS [world]
 *
 * Prints nanoseconds (of "world", rank 0 does): a call in the fastest batch, in all batches, the
 * worst single call, and one reading of the clock.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLOCK_READINGS = 100000 };

static MPI_Comm comm;

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void barriers(long count)
{
    for (long i = 0; i < count; i++)
        MPI_Barrier(comm);
}

static void allreduces(long count)
{
    double in = 1, out;

    for (long i = 0; i < count; i++)
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, comm);
}

static double clock_cost(void)
{
    double best = 1e30;

    for (int batch = 0; batch < 10; batch++) {
        const double before = now_ns();

        for (int i = 0; i < CLOCK_READINGS; i++)
            now_ns();
        const double took = (now_ns() - before) / CLOCK_READINGS;

        best = took < best ? took : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    double fastest = 1e30, total = 0, worst = 0;
    int rank;

    if (argc < 4)
        return 2;
    void (*const loop)(long) = strcmp(argv[1], "barrier") == 0 ? barriers : allreduces;
    const long batches = atol(argv[2]), calls = atol(argv[3]);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comm = argc > 4 ? MPI_COMM_WORLD : MPI_COMM_SELF;
    loop(calls);
    for (long batch = 0; batch < batches; batch++) {
        const double before = now_ns();

        loop(calls);
        const double took = (now_ns() - before) / (double)calls;

        fastest = took < fastest ? took : fastest;
        total += took;
    }
    for (long i = 0; i < calls; i++) {
        const double before = now_ns();

        loop(1);
        const double took = now_ns() - before;

        worst = took > worst ? took : worst;
    }
    if (rank == 0 || argc <= 4)
        printf("%.1f %.1f %.1f %.1f\n", fastest, total / (double)batches, worst, clock_cost());
    MPI_Finalize();
    return 0;
}
