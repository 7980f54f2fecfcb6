/* Uses only Sessions, on 3 ranks: a communicator of all, one of ranks 0 and 1, and an
 * inter-communicator. "apart": ranks 0 and 1 start with one communicator, and rank 2 with another.
 * "alone": one rank has two sessions, one after the other. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static MPI_Comm from(MPI_Group group, const char *tag)
{
    MPI_Comm c = MPI_COMM_NULL;

    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c);
    return c;
}

static int session(int apart)
{
    MPI_Session s;
    MPI_Group world, pair, half, others;
    MPI_Comm all, again, two, bridge;
    int rank, sum = 0;
    const int first[] = {0, 1}, last[] = {2};

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &s);
    MPI_Group_from_session_pset(s, "mpi://WORLD", &world);
    MPI_Group_rank(world, &rank);
    MPI_Group_incl(world, 2, first, &pair);
    MPI_Group_incl(world, 1, last, &half);
    if (apart) {
        two = from(rank < 2 ? pair : half, "apart");
        MPI_Barrier(two);
        MPI_Comm_set_name(two, rank < 2 ? "apart, 0 and 1" : "apart, 2");
        MPI_Comm_free(&two);
    }
    all = from(world, "all");
    again = from(world, "all");
    MPI_Comm_set_name(all, "all 1");
    MPI_Comm_set_name(again, "again 1");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Barrier(again);
    if (rank < 2) {
        two = from(pair, "two");
        MPI_Comm_set_name(two, "two 1");
        MPI_Barrier(two);
        MPI_Comm_free(&two);
    }
    others = rank < 2 ? half : pair;
    MPI_Intercomm_create_from_groups(rank < 2 ? pair : half, 0, others, 0, "bridge", MPI_INFO_NULL,
                                     MPI_ERRORS_ARE_FATAL, &bridge);
    MPI_Comm_set_name(bridge, "bridge 1");
    MPI_Barrier(bridge);
    MPI_Comm_free(&bridge);
    MPI_Comm_free(&again);
    MPI_Comm_free(&all);
    MPI_Group_free(&pair);
    MPI_Group_free(&half);
    MPI_Group_free(&world);
    MPI_Session_finalize(&s);
    return sum == 3;
}

/* One rank's session: nothing of it depends on another. */
static int session_alone(int number)
{
    MPI_Session s;
    MPI_Group self;
    MPI_Comm all;
    int one = 1, sum = 0;
    char tag[40];

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &s);
    MPI_Group_from_session_pset(s, "mpi://SELF", &self);
    snprintf(tag, sizeof tag, "all.%d", number);
    all = from(self, tag);
    MPI_Comm_set_name(all, number == 1 ? "all 1" : "all 2");
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Group_free(&self);
    MPI_Session_finalize(&s);
    return sum == 1;
}

int main(int argc, char **argv)
{
    const char *const how = argc > 1 ? argv[1] : "once";

    if (strcmp(how, "alone") == 0)
        return session_alone(1) && session_alone(2) ? 0 : 1;
    return session(strcmp(how, "apart") == 0) ? 0 : 1;
}
