/* Rank 1 binds itself to a single processor, by default between two steps. With the argument "end"
 * it does so before MPI_Finalize, and no interval follows. With "thread", another thread is bound.
 * With the path of a file, rank 1 joins the control group to which this file belongs instead. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 10, STEP_MS = 50, PARTS = 8 };

static void work(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    const double end = (double)t.tv_sec + t.tv_nsec * 1e-9 + STEP_MS * 1e-3;

    do
        clock_gettime(CLOCK_MONOTONIC, &t);
    while ((double)t.tv_sec + t.tv_nsec * 1e-9 < end);
}

static void *bind_thread(void *ignored)
{
    cpu_set_t all, first;

    CPU_ZERO(&first);
    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&first) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &first);
    sched_setaffinity(0, sizeof first, &first);
    return ignored;
}

static void join_group(const char *path)
{
    FILE *const file = fopen(path, "w");

    if (file != NULL) {
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    const char *const mode = argc > 1 ? argv[1] : "";
    pthread_t thread;
    int rank;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < STEPS; step++) {
        if (rank == 1 && step == STEPS / 2 && strcmp(mode, "thread") == 0 &&
            pthread_create(&thread, NULL, bind_thread, NULL) == 0)
            pthread_join(thread, NULL);
        if (rank == 1 && step == STEPS / 2 && mode[0] == '\0')
            bind_thread(NULL);
        if (rank == 1 && step == STEPS / 2 && mode[0] == '/')
            join_group(mode);
        for (int part = 0; part < (mode[0] == '/' ? PARTS : 1); part++)
            work();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 1 && strcmp(mode, "end") == 0)
        bind_thread(NULL);
    MPI_Finalize();
    return 0;
}
