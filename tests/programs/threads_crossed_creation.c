/* Two threads of each rank create inter-communicators of the same members at once, with one tag,
 * from different parents. The calls may end in a different order on each rank. Then the threads
 * call collectives on the new communicators.
 *
 *     threads_crossed_creation TIMES
 *
 * Prints the number of wrong results.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, times;

struct worker {
    MPI_Comm all;
    int number, wrong;
};

static void once(struct worker *w, MPI_Comm half, int first, int others)
{
    MPI_Comm inter;
    const int mine = 100 * w->number + rank, remote_first = first == 0 ? 2 : 0;
    int got[2], sum = 0, expected = 0;

    MPI_Intercomm_create(half, 0, w->all, remote_first, 7, &inter);
    MPI_Allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, inter);
    for (int i = 0; i < others; i++)
        w->wrong += got[i] != 100 * w->number + remote_first + i;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < others; i++)
        expected += 100 * w->number + remote_first + i;
    w->wrong += sum != expected;
    MPI_Comm_free(&inter);
}

static void *work(void *given)
{
    struct worker *const w = given;
    const int left = rank < 2, first = left ? 0 : 2, others = left ? 1 : 2;
    MPI_Comm half;

    MPI_Comm_split(w->all, left, rank, &half);
    for (int i = 0; i < times; i++)
        once(w, half, first, others);
    MPI_Comm_free(&half);
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker workers[2] = {{.number = 1}, {.number = 2}};
    pthread_t threads[2];
    int provided, wrong, all;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    times = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].all);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &workers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    wrong = workers[0].wrong + workers[1].wrong;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", all);
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&workers[i].all);
    MPI_Finalize();
    return 0;
}
