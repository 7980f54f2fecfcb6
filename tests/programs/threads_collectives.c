/* THREADS threads on as many duplicates of MPI_COMM_WORLD make COUNT barriers and reductions each.
 * A third argument is a number of short-lived threads instead, one after the other, in waves. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 100 };
static MPI_Comm comms[MOST];
static long count;

static void *work(void *which)
{
    const MPI_Comm comm = *(MPI_Comm *)which;

    for (long i = 0; i < count; i++) {
        long x = i, sum = 0;

        MPI_Allreduce(&x, &sum, 1, MPI_LONG, MPI_SUM, comm);
        if (i % 10 == 0)
            MPI_Barrier(comm);
    }
    return NULL;
}

static void wave(int threads)
{
    pthread_t started[MOST];

    for (int i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, work, &comms[i]) != 0)
            abort();
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 8;
    const int waves = argc > 3 ? atoi(argv[3]) : 1;
    int provided = 0;

    count = argc > 2 ? atol(argv[2]) : 100;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < threads; i++)
        MPI_Comm_dup(argc > 3 ? MPI_COMM_SELF : MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < waves; i++)
        wave(threads);
    for (int i = 0; i < threads; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    printf("done\n");
    return 0;
}
