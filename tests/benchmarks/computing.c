/* A sound program with long computations: nobody hangs, however long the others wait.
 *
 *     computing SEED SECONDS SHORTEST LONGEST
 *
 * For SECONDS, rounds of one of eight ways in which ranks compute for SHORTEST to LONGEST seconds while
 * others wait for them. Rank 0 prints how many computations there were, and the longest. Exit code 7.
 */
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WAYS = 8, BLOCK = 1 << 18, MEMORY = 1 << 23, CODE = 7 };

static double longest;
static int computations;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Arithmetic, or with `memory` going through more than the caches hold. */
static void compute(double seconds, double *memory)
{
    const double until = now() + seconds;
    volatile double x = 1;

    longest = seconds > longest ? seconds : longest;
    computations++;
    while (now() < until)
        for (int i = 0; i < (memory ? MEMORY : 10000); i++) {
            if (memory)
                memory[i] += 1;
            else
                x = x * 1.0000001 + 1e-9;
        }
}

static void *compute_beside(void *seconds)
{
    compute(*(double *)seconds, NULL);
    return NULL;
}

static void message_from(int who, int to, int rank)
{
    if (rank == who)
        MPI_Send(&who, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    if (rank == to)
        MPI_Recv(&who, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* One after the other, each for its part, as a pipeline runs. */
static void in_turn(double seconds, int rank, int size)
{
    int token = 0;

    if (rank > 0)
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    compute(seconds / size, NULL);
    if (rank < size - 1)
        MPI_Send(&token, 1, MPI_INT, rank + 1, 2, MPI_COMM_WORLD);
}

static void one_round(int way, int who, double seconds, int rank, int size, double *memory)
{
    const int mine = rank == who;
    pthread_t thread;
    MPI_Request request;
    double sum = rank, all;

    if (way == 0)
        compute(seconds, NULL);
    if (way == 1 && mine)
        compute(seconds, NULL);
    if (way == 2 && mine)
        compute(seconds, memory);
    if (way == 2)
        MPI_Bcast(memory, BLOCK, MPI_DOUBLE, who, MPI_COMM_WORLD);
    if (way == 3 && mine)
        compute(seconds, NULL);
    if (way == 3)
        message_from(who, (who + 1) % size, rank);
    if (way == 4) {
        if (mine)
            compute(seconds / 2, NULL);
        MPI_Iallreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        if (mine)
            compute(seconds / 2, NULL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (way == 5 && mine && pthread_create(&thread, NULL, compute_beside, &seconds) == 0)
        pthread_join(thread, NULL);
    if (way == 6)
        in_turn(seconds, rank, size);
    if (way == 7 && !mine) /* all but one */
        compute(seconds, memory);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, size, all;
    double began, left, most;

    if (argc != 5)
        return 2;
    const double seconds = atof(argv[2]), low = atof(argv[3]), high = atof(argv[4]);
    double *const memory = calloc(MEMORY, sizeof *memory);

    srand((unsigned)atoi(argv[1]));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    began = now();
    for (;;) {
        const int way = rand() % WAYS, who = rand() % size;
        double length = low * pow(high / low, rand() / (double)RAND_MAX);

        left = seconds - (now() - began);
        MPI_Bcast(&left, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (left <= 0)
            break;
        one_round(way, who, length < left ? length : left, rank, size, memory);
    }
    MPI_Reduce(&computations, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&longest, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d %.1f\n", all, most);
    free(memory);
    MPI_Finalize();
    return CODE;
}
