/* Collectives in known numbers, which differ strongly between ranks.
 *
 *     ring_counts ROUNDS [hang|flush]
 *
 * One barrier of all ranks. Then each round has three allreduces of ranks 0 and 1, and every tenth
 * round a broadcast of all. hang: ranks 0 and 1 continue forever, and rank 2 waits in a barrier of
 * all ranks. flush: MPI_Pcontrol(2) in each round.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 0;
    const char *const how = argc > 2 ? argv[2] : "";
    const int hangs = strcmp(how, "hang") == 0, flushes = strcmp(how, "flush") == 0;
    double value = 1, sum;
    MPI_Comm pair;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &pair);
    for (int i = 0; i < rounds || (hangs && rank < 2); i++) {
        for (int k = 0; k < 3 && rank < 2; k++)
            MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, pair);
        if (i < rounds && i % 10 == 0)
            MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (flushes)
            MPI_Pcontrol(2);
    }
    if (hangs)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&pair);
    MPI_Finalize();
    return 0;
}
