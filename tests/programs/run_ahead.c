/* Says of each rooted operation whether the other rank runs ahead of a late one.
 *
 *     run_ahead      2 ranks
 *
 * One rank sleeps while the other does CALLS calls: of what it sends it need not wait for anybody,
 * unless something adds a barrier. Prints a line for each operation.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { CALLS = 20 };

static const struct timespec nap = {.tv_nsec = 600000000};

static void call(int operation)
{
    int value = 1, sum, all[2];

    if (operation == 0)
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    else if (operation == 1)
        MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
    else
        MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"bcast", "reduce", "gather"};
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int operation = 0; operation < 3; operation++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double before = MPI_Wtime();

        if (rank == 1)
            nanosleep(&nap, NULL);
        for (int i = 0; i < CALLS; i++)
            call(operation);
        const double took = MPI_Wtime() - before;

        if (rank == 0)
            printf("%s %s\n", names[operation], took < 0.3 ? "runs ahead" : "waits");
    }
    MPI_Finalize();
    return 0;
}
