/* A halo exchange in a ring with one slow rank: messages_halo STEPS SLOW. In each step a rank works
 * 1 ms before each of 5 exchanges; the slow rank works 9 ms before the first one. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

enum { EXCHANGES = 5, WORK_US = 1000, LATE_US = 8000 };

static void work(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    double received[2], sent = 1, sum;
    MPI_Request requests[4];
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    int steps = argc > 1 ? atoi(argv[1]) : 0, slow = argc > 2 ? atoi(argv[2]) : 0;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < EXCHANGES; i++) {
            work(WORK_US + (rank == slow && i == 0 ? LATE_US : 0));
            MPI_Irecv(&received[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(&received[1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[1]);
            MPI_Isend(&sent, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[2]);
            MPI_Isend(&sent, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[3]);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        }
        MPI_Allreduce(&sent, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
