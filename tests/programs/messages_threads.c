/* Threads, one after the other, that receive messages and end. Prints how many bytes of the heap
 * each of them has left behind. For 1 rank. */
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { MESSAGES = 64, WARM_UP = 50, THREADS = 200 };

static void *receive(void *unused)
{
    MPI_Request requests[MESSAGES];
    static int in[MESSAGES], out;

    for (int i = 0; i < MESSAGES; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Send(&out, 1, MPI_INT, 0, i, MPI_COMM_SELF);
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    return unused;
}

int main(int argc, char **argv)
{
    size_t before = 0;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int i = 0; i < WARM_UP + THREADS; i++) {
        pthread_t thread;

        if (i == WARM_UP)
            before = mallinfo2().uordblks;
        pthread_create(&thread, NULL, receive, NULL);
        pthread_join(thread, NULL);
    }
    printf("%ld\n", ((long)mallinfo2().uordblks - (long)before) / THREADS);
    MPI_Finalize();
    return 0;
}
