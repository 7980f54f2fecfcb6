/* Four threads complete operations that are complete immediately, for which a library may return
 * one request to all threads. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, TIMES = 30000 };

static void *work(void *place)
{
    const MPI_Comm own = *(MPI_Comm *)place;

    for (int i = 0; i < TIMES; i++) {
        MPI_Request pending;

        MPI_Ibarrier(own, &pending);
        MPI_Wait(&pending, MPI_STATUS_IGNORE);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    MPI_Comm own[THREADS];
    pthread_t threads[THREADS];
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_SELF, &own[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &own[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MPI_Finalize();
    puts("done");
    return 0;
}
