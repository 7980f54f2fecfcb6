/* Collectives on an inter-communicator of ranks 0 and 1 with rank 2, on 3 ranks. */
#include <mpi.h>

static int in[8], out[8];

int main(int argc, char **argv)
{
    MPI_Comm half, c;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 2 ? 0 : 2, 0, &c);
    /* The root is rank 1, the second of its group. */
    const int root = rank == 1 ? MPI_ROOT : rank == 0 ? MPI_PROC_NULL : 1;
    /* Here it is rank 2, and both others take part. */
    const int alone = rank == 2 ? MPI_ROOT : 0;
    const int mine = rank == 2 ? 2 : 1, theirs = rank == 2 ? 1 : 2;

    in[0] = rank;
    MPI_Barrier(c);
    MPI_Bcast(in, 3, MPI_INT, root, c);
    MPI_Gather(in, 2, MPI_INT, out, 2, MPI_INT, alone, c);
    MPI_Scatter(in, 2, MPI_INT, out, 2, MPI_INT, alone, c);
    MPI_Reduce(in, out, 3, MPI_INT, MPI_SUM, alone, c);
    MPI_Allreduce(in, out, 3, MPI_INT, MPI_SUM, c);
    MPI_Allgather(in, mine, MPI_INT, out, theirs, MPI_INT, c);
    MPI_Alltoall(in, mine, MPI_INT, out, theirs, MPI_INT, c);
    MPI_Comm_free(&c);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
