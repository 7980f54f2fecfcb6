/* Sessions alone, on 4 ranks: communicators created from groups one after the other, each used for
 * broadcasts and a sum. "halves": ranks 0, 1 and ranks 2, 3 start separately, then all create one.
 * "nested": ranks 0, 1 have one, then all create one; two of them had none before. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };

static MPI_Group world;

static int use(const int *ranks, int count, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, one = 1, sum = 0, right = 1;
    char *const data = malloc(BYTES);

    MPI_Group_incl(world, count, ranks, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 3; i++) {
        memset(data, rank == 0 ? 'a' + i : 0, BYTES);
        MPI_Bcast(data, BYTES, MPI_BYTE, 0, comm);
        right &= data[0] == 'a' + i && data[BYTES / 2] == 'a' + i && data[BYTES - 1] == 'a' + i;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        right &= sum == size;
    }
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    free(data);
    return right;
}

int main(int argc, char **argv)
{
    const int halves = argc > 1 && strcmp(argv[1], "halves") == 0;
    const int first[] = {0, 1}, second[] = {2, 3}, all[] = {0, 1, 2, 3};
    int rank, right = 1;
    MPI_Session session;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_rank(world, &rank);
    if (rank < 2)
        right &= use(first, 2, "first");
    else if (halves)
        right &= use(second, 2, "second");
    right &= use(all, 4, "all");
    MPI_Group_free(&world);
    MPI_Session_finalize(&session);
    return right ? 0 : 1;
}
