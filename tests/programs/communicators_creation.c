/* Creates a communicator in every possible way, on 3 ranks. Each gets a name and one barrier. The
 * trace must match communicators with the same name on several ranks, and no others. */
#include <mpi.h>
#include <stdio.h>

static int rank;
static MPI_Comm first, second;

static void use(MPI_Comm c, const char *name)
{
    if (c == MPI_COMM_NULL)
        return;
    MPI_Comm_set_name(c, name);
    MPI_Barrier(c);
}

static void drop(MPI_Comm c, const char *name)
{
    use(c, name);
    if (c != MPI_COMM_NULL)
        MPI_Comm_free(&c);
}

static MPI_Group members(int count, const int *ranks)
{
    MPI_Group world, group;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, ranks, &group);
    MPI_Group_free(&world);
    return group;
}

static void duplicates(void)
{
    MPI_Comm c, d[2];
    MPI_Request r[2];

    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    use(first, "first");
    use(second, "second");
    MPI_Comm_dup_with_info(first, MPI_INFO_NULL, &c);
    drop(c, "dup_with_info");
    MPI_Comm_idup(first, &c, r);
    MPI_Wait(r, MPI_STATUS_IGNORE);
    drop(c, "idup");
#if MPI_VERSION >= 4
    MPI_Comm_idup_with_info(first, MPI_INFO_NULL, &c, r);
    MPI_Wait(r, MPI_STATUS_IGNORE);
    drop(c, "idup_with_info");
#endif
    /* Equal members, different parents, opposite orders. */
    const int early = rank == 0 ? 0 : 1;

    for (int i = 0; i < 2; i++) {
        const int which = i == 0 ? early : 1 - early;

        MPI_Comm_idup(which == 0 ? first : second, &d[which], &r[i]);
    }
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    drop(d[0], "idup of first");
    drop(d[1], "idup of second");
}

static void groups(void)
{
    const int ends[] = {2, 0}, pair[] = {0, 1};
    MPI_Group g = members(2, ends), p = members(2, pair);
    MPI_Comm c = MPI_COMM_NULL, d = MPI_COMM_NULL;

    MPI_Comm_create(MPI_COMM_WORLD, g, &c);
    drop(c, "create");
    MPI_Comm_create(MPI_COMM_WORLD, rank == 1 ? MPI_GROUP_EMPTY : g, &c);
    drop(c, "create beside an empty group");
    MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &c);
    drop(c, "no one's");
    /* MPICH 4.0 crashes in it on a duplicate, bare as well. */
#if !defined(MPICH_NUMVERSION) || MPICH_NUMVERSION >= 40100000
    if (rank != 1) {
        MPI_Comm_create_group(first, g, 7, &c);
        use(c, "create_group, tag 7");
        MPI_Comm_create_group(first, g, 7, &d);
        drop(d, "create_group, tag 7 again");
        MPI_Comm_free(&c);
        MPI_Comm_create_group(first, g, 8, &c);
        drop(c, "create_group, tag 8");
        MPI_Comm_create_group(second, g, 7, &c);
        drop(c, "create_group of second, tag 7");
    }
    if (rank != 2) { /* by now the ranks have made different numbers of groups */
        MPI_Comm_create_group(first, p, 7, &c);
        drop(c, "create_group of two others");
    }
#endif
    MPI_Group_free(&g);
    MPI_Group_free(&p);
    MPI_Comm_dup(first, &c);
    drop(c, "dup after create_group");
}

static void parts(void)
{
    MPI_Comm c, d;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &c);
    drop(c, rank % 2 == 0 ? "split even" : "split odd");
    MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank, &c);
    use(c, "split but 1");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &d);
    drop(d, "split_type");
    if (c != MPI_COMM_NULL) {
        MPI_Comm_dup(c, &d);
        drop(d, "dup of split but 1");
        MPI_Comm_free(&c);
    }
    MPI_Comm_dup(MPI_COMM_SELF, &c);
    drop(c, rank == 0 ? "self 0" : rank == 1 ? "self 1" : "self 2");
}

static void topologies(void)
{
    const int dims[] = {3, 1}, periods[] = {1, 0}, keep[] = {1, 0};
    const int index[] = {1, 3, 4}, edges[] = {1, 0, 2, 1};
    const int previous = (rank + 2) % 3, next = (rank + 1) % 3, both[] = {previous, next};
    const int one = 1, weight[] = {1, 1};
    int got[2];
    MPI_Comm c, d;

    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &c);
    use(c, "cart");
    MPI_Cart_sub(c, keep, &d);
    drop(d, "cart_sub");
    MPI_Comm_free(&c);
    MPI_Graph_create(MPI_COMM_WORLD, 3, index, edges, 0, &c);
    drop(c, "graph");
    /* From each rank to the next, and from rank 0 to itself. */
    const int degree = rank == 0 ? 2 : 1, to[] = {next, 0};

    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, to, weight, MPI_INFO_NULL, 0, &c);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, c);
    MPI_Neighbor_alltoall(both, 1, MPI_INT, got, 1, MPI_INT, c);
    drop(c, "dist_graph");
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, one, both, weight, one, both + 1, weight,
                                   MPI_INFO_NULL, 0, &c);
    drop(c, "adjacent");
    MPI_Cart_create(MPI_COMM_WORLD, 1, &(int){2}, &(int){0}, 0, &c);
    drop(c, "cart of two");
}

static void bridges(void)
{
    MPI_Comm half, bridge, again, c;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 2 ? 0 : 2, 11, &bridge);
    use(bridge, "intercomm");
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 2 ? 0 : 2, 11, &again);
    drop(again, "intercomm again");
    MPI_Intercomm_merge(bridge, rank == 2, &c);
    drop(c, "merge");
    MPI_Comm_dup(bridge, &c);
    drop(c, "dup of intercomm");
    MPI_Comm_free(&bridge);
    MPI_Comm_free(&half);
}

static void hidden(void)
{
    MPI_Comm c, d;

    PMPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Barrier(c);
    MPI_Comm_set_name(c, rank == 0 ? "unknown 0" : rank == 1 ? "unknown 1" : "unknown 2");
    MPI_Comm_dup(c, &d);
    drop(d, rank == 0 ? "of unknown 0" : rank == 1 ? "of unknown 1" : "of unknown 2");
    MPI_Comm_free(&c);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    duplicates();
    groups();
    parts();
    topologies();
    bridges();
    hidden();
    MPI_Comm_set_name(MPI_COMM_WORLD, "the \"world\"");
    MPI_Comm_disconnect(&first);
    MPI_Comm_free(&second);
    MPI_Finalize();
    return 0;
}
