/* Uses only Sessions. Ranks 0 and 1 create a communicator of these two, then all ranks create
 * several, one after the other, and use each. */
#include <mpi.h>
#include <stdio.h>

enum { TIMES = 8 };

int main(void)
{
    MPI_Session s;
    MPI_Group world, pair;
    MPI_Comm two;
    const int first[] = {0, 1};
    int rank, size, wrong = 0;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &s);
    MPI_Group_from_session_pset(s, "mpi://WORLD", &world);
    MPI_Group_rank(world, &rank);
    MPI_Group_size(world, &size);
    MPI_Group_incl(world, 2, first, &pair);
    if (rank < 2) {
        MPI_Comm_create_from_group(pair, "two", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &two);
        MPI_Barrier(two);
        MPI_Comm_free(&two);
    }
    for (int i = 0; i < TIMES; i++) {
        int sum = 0;
        char tag[16];
        MPI_Comm all;

        sprintf(tag, "all %d", i);
        MPI_Comm_create_from_group(world, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
        wrong += sum != size * (size - 1) / 2;
        MPI_Comm_free(&all);
    }
    if (rank == 0)
        puts(wrong == 0 ? "ok" : "wrong");
    MPI_Group_free(&pair);
    MPI_Group_free(&world);
    MPI_Session_finalize(&s);
    return 0;
}
