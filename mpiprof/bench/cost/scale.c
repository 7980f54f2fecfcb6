/* A program of many ranks: rounds of three collectives, rank 1 late in each. Prints one line. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    int rank, size, rounds, code;
    long mine, sum = 0;

    if (argc < 3)
        return 2;
    rounds = atoi(argv[1]);
    code = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < rounds; i++) {
        const struct timespec late = {.tv_nsec = 20000000};

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
    MPI_Finalize();
    return code;
}
