/* Checks that the program's error handler stays set, on 2 ranks. One thread repeatedly queries the
 * error handler of a communicator (if MPI supports threads). Another thread makes calls on this
 * communicator that algorithms are selected for. Prints how often the queried handler was not the
 * program's. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { COMMUNICATORS = 40, CALLS = 20 };

static atomic_int now, wrong;
static MPI_Comm comms[COMMUNICATORS];
static MPI_Errhandler own;

static void heard(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

static void *watch(void *unused)
{
    MPI_Errhandler found;

    for (int i; (i = atomic_load(&now)) < COMMUNICATORS;) {
        MPI_Comm_get_errhandler(comms[i], &found);
        if (found != own)
            atomic_fetch_add(&wrong, 1);
        if (found != MPI_ERRORS_ARE_FATAL && found != MPI_ERRORS_RETURN)
            MPI_Errhandler_free(&found);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int provided, rank, one = 1, sum = 0, all = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(heard, &own);
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], own);
    }
    if (provided == MPI_THREAD_MULTIPLE)
        pthread_create(&thread, NULL, watch, NULL);
    for (int i = 0; i < COMMUNICATORS; i++) {
        for (int call = 0; call < CALLS; call++)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
        atomic_fetch_add(&now, 1);
    }
    if (provided == MPI_THREAD_MULTIPLE)
        pthread_join(thread, NULL);
    int mine = atomic_load(&wrong);

    MPI_Reduce(&mine, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d times another handler\n", all);
    for (int i = 0; i < COMMUNICATORS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Errhandler_free(&own);
    MPI_Finalize();
    return provided == MPI_THREAD_MULTIPLE ? 0 : 77;
}
