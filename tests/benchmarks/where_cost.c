/* Steps of a fixed amount of work and an allreduce, in blocks; then short calls on one rank alone.
 * Arguments: number of blocks. Rank 0 prints the ns of each block ("block NS") and of a call in
 * each batch ("call NS"). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 20, WORK = 2000000, BATCHES = 50, CALLS = 2000 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) double work(double x)
{
    for (int i = 0; i < WORK; i++)
        x = x * 0.999 + 1;
    return x;
}

int main(int argc, char **argv)
{
    const int blocks = argc > 1 ? atoi(argv[1]) : 20;
    double x = 0;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int block = 0; block <= blocks; block++) {
        const double begin = now();

        for (int step = 0; step < STEPS; step++) {
            x = work(x);
            MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        if (rank == 0 && block > 0) /* the first block warms up */
            printf("block %.0f\n", now() - begin);
    }
    for (int batch = 0; rank == 0 && batch < BATCHES; batch++) {
        const double begin = now();

        for (int call = 0; call < CALLS; call++)
            MPI_Barrier(MPI_COMM_SELF);
        printf("call %.1f\n", (now() - begin) / CALLS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return x < 0;
}
