/* Rounds of a barrier, a broadcast and an allreduce, with a pause before each.
 *
 *     clock_rounds ROUNDS end|kill [bcast]
 *
 * end: run to MPI_Finalize. kill: the last rank kills itself while the other ranks are in a
 * barrier. bcast: only broadcasts from rank 0, which do not synchronise.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void sleep_us(long us)
{
    const struct timespec pause = {.tv_nsec = 1000 * us};

    nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
    int rank, size, value = 0, sum;

    if (argc < 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < atoi(argv[1]); i++) {
        sleep_us(200 + 100 * ((rank + i) % size));
        if (argc > 3) {
            MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
            continue;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Bcast(&value, 1, MPI_INT, i % size, MPI_COMM_WORLD);
        sleep_us(1000);
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (strcmp(argv[2], "kill") == 0) {
        sleep_us(20000);
        if (rank == size - 1)
            raise(SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
