/* Collectives whose counts are known, at ranks that make very different numbers of them.
 *
 *     ring ROUNDS [hang]
 *
 * One barrier of all; then, in each round, three allreduces of ranks 0 and 1, and in every tenth a
 * broadcast of all. hang: ranks 0 and 1 go on for ever, and rank 2 waits in a barrier of all.
 */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    double value = 1, sum;
    MPI_Comm pair;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &pair);
    for (int i = 0; i < rounds || (argc > 2 && rank < 2); i++) {
        for (int k = 0; k < 3 && rank < 2; k++)
            MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, pair);
        if (i < rounds && i % 10 == 0)
            MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    if (argc > 2)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&pair);
    MPI_Finalize();
    return 0;
}
