/* Checks that MPI_Init moves no entry of the environment while a second thread may be in getenv.
 * With "alone" there is no such thread. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void *sleeping(void *unused)
{
    pause();
    return unused;
}

int main(int argc, char **argv)
{
    static char *before[10000];
    pthread_t thread;
    int count = 0, moved = 0;

    if (argc < 2)
        pthread_create(&thread, NULL, sleeping, NULL);
    while (environ[count] != NULL && count < 10000) {
        before[count] = environ[count];
        count++;
    }
    MPI_Init(&argc, &argv);
    for (int i = 0; i < count; i++)
        moved += environ[i] == NULL || strncmp(before[i], environ[i], strcspn(before[i], "=")) != 0;
    printf("moved %d, preloaded %s\n", moved > 0, getenv("LD_PRELOAD"));
    MPI_Finalize();
    return 0;
}
