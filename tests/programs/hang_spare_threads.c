/* Two threads per rank, each with a separate communicator. Their barriers wait for each other.
 *
 *     hang_spare_threads SECONDS
 *
 * The last rank's first thread waits for its second thread. That thread is in a barrier, which
 * lacks the second thread of the preceding rank. The missing thread computes for SECONDS and then
 * arrives; with 0 it sleeps forever.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static MPI_Comm own[2];
static int rank, size, seconds;

static void rounds(MPI_Comm comm)
{
    for (int i = 0; i < 20; i++) {
        int in = rank, out;

        MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm);
    }
}

static void *second(void *unused)
{
    rounds(own[1]);
    if (rank == size - 2) {
        const double end = MPI_Wtime() + seconds;
        volatile double sum = 0;

        while (seconds == 0)
            sleep(1);
        while (MPI_Wtime() < end)
            for (int i = 0; i < 1000; i++)
                sum += i;
    }
    MPI_Barrier(own[1]);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t other;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seconds = atoi(argv[1]);
    if (provided < MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &own[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &own[1]);
    pthread_create(&other, NULL, second, NULL);
    rounds(own[0]);
    if (rank == size - 1)
        pthread_join(other, NULL);
    MPI_Barrier(own[0]);
    if (rank < size - 1)
        pthread_join(other, NULL);
    MPI_Finalize();
    return 0;
}
