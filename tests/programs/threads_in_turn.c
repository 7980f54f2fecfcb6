/* One thread after another calls MPI, each between two calls of the main thread. */
#include <mpi.h>
#include <pthread.h>

enum { THREADS = 5, CALLS = 2 };

static void *run(void *unused)
{
    double out = 1, in = 0;

    for (int i = 0; i < CALLS; i++) {
        MPI_Barrier(MPI_COMM_SELF);
        MPI_Sendrecv(&out, 1, MPI_DOUBLE, 0, 0, &in, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Barrier(MPI_COMM_SELF);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, NULL);
        MPI_Barrier(MPI_COMM_SELF);
    }
    MPI_Finalize();
    return provided != MPI_THREAD_MULTIPLE;
}
