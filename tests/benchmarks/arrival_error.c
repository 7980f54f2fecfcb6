/* Two ranks that arrive a known time apart, for tests/benchmarks/arrival_error.py.
 *
 *     arrival_error REPETITIONS DELAY_US...
 *
 * Both ranks share a clock: rank 0 names a time, both wait busily for it, the late rank for the
 * delay longer, and then they meet in a barrier. Ranks take turns in being late.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void meet(int rank, int late, int64_t delay_ns)
{
    int64_t start = now_ns() + 1000000;

    MPI_Bcast(&start, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    start += rank == late ? delay_ns : 0;
    while (now_ns() < start)
        ;
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank;

    if (argc < 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 2; i < argc; i++)
        for (int repetition = 0; repetition < atoi(argv[1]); repetition++)
            meet(rank, repetition % 2, 1000 * atoll(argv[i]));
    MPI_Finalize();
    return 0;
}
