/* Cancels threads at any point of calls with ever new sizes: cancelled THREADS
 *
 * Each size creates a new row of the recorder's tables, so many threads are cancelled while the
 * recorder writes a row.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 3000 };

static char in[MOST], out[MOST];

static void *work(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_testcancel();
        for (int n = 1; n < MOST; n++)
            MPI_Allreduce(in, out, n, MPI_CHAR, MPI_BOR, MPI_COMM_SELF);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bool all = true;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    for (int i = 0; i < atoi(argv[1]); i++) {
        pthread_t thread;
        void *how;

        pthread_create(&thread, NULL, work, NULL);
        usleep((useconds_t)(300 + i * 37 % 900));
        pthread_cancel(thread);
        pthread_join(thread, &how);
        all &= how == PTHREAD_CANCELED;
    }
    printf(all ? "all cancelled\n" : "one was not\n");
    MPI_Finalize();
    return 0;
}
