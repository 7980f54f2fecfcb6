/* Rank 1 computes in threads between two barriers, while its calling thread sleeps until they have
 * ended. The first argument selects the threads: "openmp" (with -fopenmp and OMP_WAIT_POLICY=passive)
 * or "pthreads", which are named worker. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { STEPS = 20, THREADS = 2, COMPUTE_MS = 20 };

static pthread_barrier_t begin, end;

static double processor_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + t.tv_nsec * 1e-9;
}

static void compute(void)
{
    const double until = processor_time() + COMPUTE_MS * 1e-3;

    while (processor_time() < until)
        continue;
}

static void *worker_run(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "worker");
    for (int i = 0; i < STEPS; i++) {
        pthread_barrier_wait(&begin);
        compute();
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void openmp_step(void)
{
#ifdef _OPENMP
#pragma omp parallel num_threads(THREADS + 1)
    {
        int is_caller = 0;
#pragma omp master
        is_caller = 1;
        if (!is_caller)
            compute();
    }
#endif
}

int main(int argc, char **argv)
{
    const int openmp = argc > 1 && strcmp(argv[1], "openmp") == 0;
    pthread_t workers[THREADS];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (int i = 0; i < THREADS && rank == 1 && !openmp; i++)
        pthread_create(&workers[i], NULL, worker_run, NULL);
    for (int i = 0; i < STEPS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1 && openmp) {
            openmp_step();
        } else if (rank == 1) {
            pthread_barrier_wait(&begin);
            pthread_barrier_wait(&end);
        }
    }
    for (int i = 0; i < THREADS && rank == 1 && !openmp; i++)
        pthread_join(workers[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
