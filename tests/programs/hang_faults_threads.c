/* Two threads per rank, each with a separate communicator. One of them makes an error, or none
 * does.
 *
 *     hang_faults_threads KIND OPERATION ODD COUNT FORM
 *
 * KIND: operation (a barrier instead of an allreduce), leave (end before an allgather), none. ODD:
 * the rank that makes the error, in its second thread. Its first thread continues with correct
 * collectives for a while.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Comm own[2];
static int rank, size, odd;
static const char *kind;

static void sound(MPI_Comm comm, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        int in = rank, out;

        MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm);
        usleep(10000);
        MPI_Barrier(comm);
    }
}

static void *first(void *unused)
{
    sound(own[0], 100);
    return unused;
}

static void *second(void *unused)
{
    int in = rank, out, *all = calloc((size_t)size, sizeof *all);

    sound(own[1], 10);
    if (strcmp(kind, "operation") == 0) {
        if (rank == odd)
            MPI_Barrier(own[1]);
        else
            MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, own[1]);
    }
    if (strcmp(kind, "leave") == 0 && rank != odd)
        MPI_Allgather(&in, 1, MPI_INT, all, 1, MPI_INT, own[1]);
    if (strcmp(kind, "leave") != 0)
        MPI_Barrier(own[1]);
    free(all);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kind = argc > 3 ? argv[1] : "none";
    odd = argc > 3 ? atoi(argv[3]) : 0;
    if (provided < MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_dup(MPI_COMM_WORLD, &own[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &own[1]);
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    MPI_Finalize();
    return 0;
}
