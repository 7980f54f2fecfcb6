/* One process is late at every collective of a loop, by a known time.
 *
 * The profile of this program has a known answer: this process is the last at each call site, and
 * the other processes wait as the operation requires. Check: every received number.
 *
 *     mpicc -g -O2 -o late_rank late_rank.c
 *     mpiexec -n 4 ./late_rank --rank 2 --late 5
 *     mpiexec -n 4 python -m mpiprof run -- ./late_rank --operation alltoall --count 4096
 *
 *     --rank R         the late rank (default: the last rank)
 *     --late MS        its delay in milliseconds (5)
 *     --busy           spend the delay computing instead of sleeping
 *     --repetitions N  (10)
 *     --count N        numbers that a process contributes, or sends to each process (1024)
 *     --operation OP   barrier, bcast, reduce, allreduce, gather, allgather, alltoall (all in turn)
 *     --hang           the late rank never enters the last repetition: for `mpiprof status`
 */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size, count = 1024;
static double *out, *in; /* size * count numbers each */

/* Return the number at an index of a process's buffer: an integer, so that sums are exact. */
static double number(int owner, int place, int repetition)
{
    return (owner + 1) * 1000.0 + place % 997 + repetition;
}

static void fill(int numbers, int repetition)
{
    for (int i = 0; i < numbers; i++)
        out[i] = number(rank, i, repetition);
}

/* Count the numbers of a block that differ from the owner's buffer from index `first` on. */
static long wrong_from(int owner, const double *block, int first, int repetition)
{
    long wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += block[i] != number(owner, first + i, repetition);
    return wrong;
}

static long wrong_sums(int repetition)
{
    long wrong = 0;
    for (int i = 0; i < count; i++) {
        double sum = 0;
        for (int k = 0; k < size; k++)
            sum += number(k, i, repetition);
        wrong += in[i] != sum;
    }
    return wrong;
}

static long wrong_blocks(int first, int repetition)
{
    long wrong = 0;
    for (int k = 0; k < size; k++)
        wrong += wrong_from(k, in + (size_t)k * (size_t)count, first, repetition);
    return wrong;
}

static long barrier(int repetition)
{
    (void)repetition;
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static long bcast(int repetition)
{
    MPI_Bcast(out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return wrong_from(0, out, 0, repetition);
}

static long reduce(int repetition)
{
    MPI_Reduce(out, in, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return rank == 0 ? wrong_sums(repetition) : 0;
}

static long allreduce(int repetition)
{
    MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return wrong_sums(repetition);
}

static long gather(int repetition)
{
    MPI_Gather(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return rank == 0 ? wrong_blocks(0, repetition) : 0;
}

static long allgather(int repetition)
{
    MPI_Allgather(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, MPI_COMM_WORLD);
    return wrong_blocks(0, repetition);
}

static long alltoall(int repetition)
{
    MPI_Alltoall(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, MPI_COMM_WORLD);
    return wrong_blocks(rank * count, repetition);
}

static const struct {
    const char *name;
    long (*run)(int repetition); /* returns the number of wrong numbers */
} operations[] = {
    {"barrier", barrier},     {"bcast", bcast},   {"reduce", reduce},
    {"allreduce", allreduce}, {"gather", gather}, {"allgather", allgather},
    {"alltoall", alltoall},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static int late_rank, repetitions = 10, busy, hang;
static double late_ms = 5;
static const char *operation; /* all operations in turn if NULL */

static void come_late(void)
{
    double until = MPI_Wtime() + late_ms / 1000;
    time_t seconds = (time_t)(late_ms / 1000);
    struct timespec sleep = {seconds, (long)((late_ms - 1000.0 * (double)seconds) * 1e6)};
    if (!busy)
        nanosleep(&sleep, NULL);
    while (MPI_Wtime() < until) {
    }
}

/* Read the command line. Returns an error message, or NULL if the command line is valid. */
static const char *parse(int argc, char **argv)
{
    const struct option names[] = {
        {"rank", 1, NULL, 'r'},  {"late", 1, NULL, 'l'},      {"repetitions", 1, NULL, 'n'},
        {"count", 1, NULL, 'c'}, {"operation", 1, NULL, 'o'}, {"busy", 0, &busy, 1},
        {"hang", 0, &hang, 1},   {NULL, 0, NULL, 0},
    };
    late_rank = size - 1;
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (letter == 'r')
            late_rank = atoi(optarg);
        else if (letter == 'l')
            late_ms = atof(optarg);
        else if (letter == 'n')
            repetitions = atoi(optarg);
        else if (letter == 'c')
            count = atoi(optarg);
        else if (letter == 'o')
            operation = optarg;
        else if (letter != 0)
            return "the options are listed at the top of late_rank.c";
    }
    if (late_rank < 0 || late_rank >= size)
        return "--rank is not one of the processes";
    if (late_ms < 0 || repetitions < 0 || count < 1)
        return "--late and --repetitions must not be negative, --count must be 1 or more";
    for (int k = 0; k < OPERATIONS; k++)
        if (!operation || strcmp(operation, operations[k].name) == 0)
            return NULL;
    return "--operation is not one of those at the top of late_rank.c";
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *problem = parse(argc, argv);
    if (problem) {
        if (rank == 0)
            fprintf(stderr, "late_rank: %s\n", problem);
        MPI_Finalize();
        return 2;
    }
    out = calloc((size_t)size * (size_t)count, sizeof *out);
    in = calloc((size_t)size * (size_t)count, sizeof *in);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);

    long wrong = 0, total = 0;
    for (int repetition = 0; repetition < repetitions; repetition++) {
        for (int k = 0; k < OPERATIONS; k++) {
            if (operation && strcmp(operation, operations[k].name) != 0)
                continue;
            fill(size * count, repetition);
            while (hang && rank == late_rank && repetition == repetitions - 1)
                pause(); /* until the job is killed */
            if (rank == late_rank)
                come_late();
            wrong += operations[k].run(repetition);
        }
    }
    MPI_Reduce(&wrong, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("result: rank %d late by %g ms, %d repetitions, last sum %.0f\n", late_rank, late_ms,
               repetitions, in[0]);
        if (total)
            printf("check failed: %ld numbers are wrong\n", total);
        else
            printf("check ok\n");
    }
    free(out);
    free(in);
    MPI_Finalize();
    return total != 0;
}
