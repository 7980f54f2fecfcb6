/* Rank 1 is late, in heavy(). All ranks sleep in between, and nothing may interrupt a sleep. The
 * exit code is the result, because a launcher drops output after a rank exits with a code other
 * than 0. */
#include <mpi.h>
#include <time.h>

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static __attribute__((noinline)) void heavy(double seconds)
{
    const double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds;
    volatile double sum = 0;

    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 1000000; i++)
            sum += i * 0.5;
}

int main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = 30000000};
    double x = 0;
    int rank, broken = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 20; i++) {
        const double begin = now(CLOCK_MONOTONIC);

        broken += nanosleep(&pause, NULL) != 0 || now(CLOCK_MONOTONIC) - begin < 0.03;
        if (rank == 1)
            heavy(0.1);
        MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Allreduce(MPI_IN_PLACE, &broken, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return broken == 0 ? 7 : 8;
}
