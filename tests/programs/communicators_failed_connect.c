/* Connects ("connect") or accepts ("accept") on all ranks at a port that does not exist. The call
 * fails after the ranks have communicated, with different error classes at the root and elsewhere.
 * The errors are returned ("return") or reported to a handler that returns ("handler"). Prints
 * "ok". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { TURNS = 20 };

static int failures;

static void count_failure(MPI_Comm *comm, int *error, ...)
{
    (void)comm, (void)error;
    failures++;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm mine, made;
    MPI_Errhandler handler;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    MPI_Comm_create_errhandler(count_failure, &handler);
    MPI_Comm_set_errhandler(mine, strcmp(argv[2], "return") == 0 ? MPI_ERRORS_RETURN : handler);
    MPI_Comm_rank(mine, &rank);
    MPI_Comm_size(mine, &size);
    for (int i = 0; i < TURNS; i++) {
        int sum = 0, root = rank == i % size ? i : -1;

        if (strcmp(argv[1], "connect") == 0)
            failures += MPI_Comm_connect("bogus", MPI_INFO_NULL, 0, mine, &made) != 0;
        else
            failures += MPI_Comm_accept("bogus", MPI_INFO_NULL, 0, mine, &made) != 0;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, mine);
        MPI_Bcast(&root, 1, MPI_INT, i % size, mine);
        if (sum != size * (size - 1) / 2 || root != i)
            MPI_Abort(mine, 2);
    }
    if (failures < TURNS)
        MPI_Abort(mine, 3);
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
