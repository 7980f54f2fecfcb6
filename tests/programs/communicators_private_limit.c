/* Uses more communicators than the limit of private ones, in several threads. Each of THREADS
 * threads cycles through its communicators and checks each sum. After a fifth of its rounds it uses
 * only a third of them.
 *
 *     communicators_private_limit THREADS COMMUNICATORS-OF-EACH ROUNDS
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static int communicators, rounds, size;
static MPI_Comm *comms;
static atomic_int wrong;

static void use(MPI_Comm comm, int turn)
{
    int given = turn, root = turn % size, sum = 0;

    MPI_Allreduce(&given, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != turn * size)
        atomic_fetch_add(&wrong, 1);
    given = turn + 1;
    MPI_Bcast(&given, 1, MPI_INT, root, comm);
    if (given != turn + 1)
        atomic_fetch_add(&wrong, 1);
}

static void *go_round(void *first)
{
    MPI_Comm *const own = first;

    for (int turn = 0; turn < rounds; turn++)
        for (int i = turn * 5 < rounds ? 0 : communicators * 2 / 3; i < communicators; i++)
            use(own[i], turn + i);
    return NULL;
}

int main(int argc, char **argv)
{
    const int threads = argc > 3 ? atoi(argv[1]) : 1;
    pthread_t *const made = calloc((size_t)threads, sizeof *made);
    int provided, all = 0, rank;

    communicators = argc > 3 ? atoi(argv[2]) : 1;
    rounds = argc > 3 ? atoi(argv[3]) : 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comms = calloc((size_t)(threads * communicators), sizeof *comms);
    for (int i = 0; i < threads * communicators; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < threads; i++)
        pthread_create(&made[i], NULL, go_round, comms + i * communicators);
    for (int i = 0; i < threads; i++)
        pthread_join(made[i], NULL);
    int mine = atomic_load(&wrong);

    MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < threads * communicators; i++)
        MPI_Comm_free(&comms[i]);
    if (rank == 0)
        printf("%d wrong\n", all);
    free(comms);
    free(made);
    MPI_Finalize();
    return 0;
}
