/* Threads of each rank create communicators at once, and call barriers on them meanwhile.
 *
 *     threads_creation TIMES
 *
 * Each thread creates a communicator of the even or the odd ranks, calls a barrier on it, and a
 * barrier of all ranks.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4 };

static int rank, size, times;

static void *work(void *given)
{
    const int tag = *(int *)given;
    MPI_Group all, half;
    int ranges[1][3] = {{rank % 2, size - 1, 2}};
    MPI_Comm made;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, ranges, &half);
    for (int i = 0; i < times; i++) {
        MPI_Comm_create_group(MPI_COMM_WORLD, half, tag, &made);
        MPI_Barrier(made);
        MPI_Comm_free(&made);
        MPI_Comm_create_group(MPI_COMM_WORLD, all, tag, &made);
        MPI_Barrier(made);
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&half);
    MPI_Group_free(&all);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int tags[THREADS], provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    times = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        pthread_create(&threads[i], NULL, work, &tags[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (rank == 0)
        printf("made\n");
    MPI_Finalize();
    return 0;
}
