/* A program of many ranks: rounds of three collectives, rank 1 late in each. Prints one line.
 *
 *     scale ROUNDS CODE LATE_MS [FOLDER]
 *
 * Its exit code is CODE. In the end each rank copies its /proc/self/smaps to a file in FOLDER.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void copy_memory_map(const char *folder, int rank)
{
    static char block[1 << 14], name[4096];
    ssize_t length;

    snprintf(name, sizeof name, "%s/%d", folder, rank);
    const int from = open("/proc/self/smaps", O_RDONLY);
    const int to = open(name, O_WRONLY | O_CREAT, 0600);

    while ((length = read(from, block, sizeof block)) > 0 && write(to, block, (size_t)length) > 0)
        continue;
    close(from);
    close(to);
}

int main(int argc, char **argv)
{
    int rank, size, rounds, code;
    long mine, late_ms, sum = 0;

    if (argc < 4)
        return 2;
    rounds = atoi(argv[1]);
    code = atoi(argv[2]);
    late_ms = atol(argv[3]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < rounds; i++) {
        const struct timespec late = {late_ms / 1000, late_ms % 1000 * 1000000};

        mine = (long)rank * (i + 1);
        if (rank == 1)
            nanosleep(&late, NULL);
        MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += mine;
        MPI_Bcast(&sum, 1, MPI_LONG, i % size, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("ranks %d, sum %ld\n", size, sum);
    if (argc > 4)
        copy_memory_map(argv[4], rank);
    MPI_Finalize();
    return code;
}
