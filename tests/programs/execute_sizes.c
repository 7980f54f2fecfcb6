/* Calls collectives with different sizes on different ranks. Prints the return value and received
 * data of each case.
 *
 *   execute_sizes [forward|reductions [COUNT]]     for 3 ranks
 *
 * forward: without cases that cut a vector into blocks. reductions: cases that the
 * libraries do not survive, with COUNT elements.
 *
 * The wrong side has twice or half of the other side's size, on all ranks or only on rank 2. Every
 * case has a separate communicator, because libraries leave messages behind after an error. Cases
 * that the library does not survive are omitted: if one rank is rejected alone, the other ranks
 * wait for it. Open MPI's reductions wait for missing data.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 10, RANKS = 3, ROOM = 4 * COUNT * RANKS };
enum { ALL_MORE, ALL_LESS, ONE_MORE, ONE_LESS, KINDS };
static const char *const kinds[] = {"all more", "all less", "one more", "one less"};
static int rank, in[ROOM], out[ROOM], right = COUNT;
static int wrong_counts[RANKS], counts[RANKS], places[RANKS], close_places[RANKS];
static MPI_Comm comm;

static int alltoall(int n)
{
    return MPI_Alltoall(in, n, MPI_INT, out, COUNT, MPI_INT, comm);
}
static int alltoall_of_pairs(int n)
{
    static MPI_Datatype pairs; /* with a gap: packed by the switcher */

    if (pairs == 0) {
        MPI_Datatype two;

        MPI_Type_contiguous(2, MPI_INT, &two);
        MPI_Type_create_resized(two, 0, 3 * sizeof(int), &pairs);
        MPI_Type_commit(&pairs);
        MPI_Type_free(&two);
    }
    return MPI_Alltoall(in, n, MPI_INT, out, COUNT / 2, pairs, comm);
}
static int alltoallv(int n)
{
    (void)n;
    return MPI_Alltoallv(in, wrong_counts, places, MPI_INT, out, counts, places, MPI_INT, comm);
}
static int alltoallv_closely(int n)
{
    (void)n;
    return MPI_Alltoallv(in, wrong_counts, places, MPI_INT, out, counts, close_places, MPI_INT,
                         comm);
}
static int allgather(int n)
{
    return MPI_Allgather(in, n, MPI_INT, out, COUNT, MPI_INT, comm);
}
static int allgather_partly_in_place(int n)
{
    return MPI_Allgather(rank == 1 ? MPI_IN_PLACE : in, n, MPI_INT, out, COUNT, MPI_INT, comm);
}
static int allgatherv(int n)
{
    return MPI_Allgatherv(in, n, MPI_INT, out, counts, places, MPI_INT, comm);
}
static int gather(int n)
{
    return MPI_Gather(in, n, MPI_INT, out, COUNT, MPI_INT, 0, comm);
}
static int gatherv(int n)
{
    return MPI_Gatherv(in, n, MPI_INT, out, counts, places, MPI_INT, 0, comm);
}
static int scatter(int n)
{
    return MPI_Scatter(in, COUNT, MPI_INT, out, n, MPI_INT, 0, comm);
}
static int scatterv(int n)
{
    return MPI_Scatterv(in, counts, places, MPI_INT, out, n, MPI_INT, 0, comm);
}
static int bcast(int n)
{
    return MPI_Bcast(out, n, MPI_INT, 0, comm);
}
static int reduce(int n)
{
    return MPI_Reduce(in, out, n, MPI_INT, MPI_SUM, 0, comm);
}

static int allreduce(int n)
{
    return MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, comm);
}
static int reduce_scatter_block(int n)
{
    return MPI_Reduce_scatter_block(in, out, n, MPI_INT, MPI_SUM, comm);
}

#define KIND(k) (1 << (k))
static const struct {
    const char *name;
    int (*call)(int n);
    int mpich, openmpi; /* which kinds end there */
} cases[] = {
    {"alltoall", alltoall, 15, KIND(ALL_MORE) | KIND(ALL_LESS)},
    {"alltoall of pairs", alltoall_of_pairs, 15, KIND(ALL_MORE) | KIND(ALL_LESS)},
    {"alltoallv", alltoallv, 15, KIND(ALL_MORE) | KIND(ALL_LESS)},
    {"alltoallv, closely", alltoallv_closely, 15, KIND(ALL_MORE) | KIND(ALL_LESS)},
    {"allgather", allgather, KIND(ALL_MORE) | KIND(ALL_LESS) | KIND(ONE_LESS),
     KIND(ALL_LESS) | KIND(ONE_LESS)},
    {"allgather, one in place", allgather_partly_in_place, KIND(ONE_LESS), KIND(ONE_LESS)},
    {"allgatherv", allgatherv, KIND(ALL_MORE) | KIND(ALL_LESS) | KIND(ONE_LESS),
     KIND(ALL_LESS) | KIND(ONE_LESS)},
    {"gather", gather, 15, 15},
    {"gatherv", gatherv, 15, 15},
    {"scatter", scatter, 15, KIND(ALL_MORE) | KIND(ONE_MORE) | KIND(ONE_LESS)},
    {"scatterv", scatterv, 15, KIND(ALL_MORE) | KIND(ONE_MORE) | KIND(ONE_LESS)},
    {"bcast", bcast, KIND(ONE_MORE) | KIND(ONE_LESS), KIND(ALL_MORE)},
    {"reduce", reduce, KIND(ONE_MORE), KIND(ONE_MORE)},
    {"allreduce", allreduce, 0, 0},
    {"reduce_scatter_block", reduce_scatter_block, 0, 0},
};

static bool is_cut(int number)
{
    return cases[number].call == bcast || cases[number].call == reduce;
}

static bool is_wrong(int kind, int who)
{
    return kind == ALL_MORE || kind == ALL_LESS || who == 2;
}

/* If a receive buffer is not filled, libraries may leave intermediate data in the rest. */
static void forget_room(int number, int kind)
{
    const bool close = cases[number].call != allgatherv;

    if (!close || cases[number].call == allgather ||
        cases[number].call == allgather_partly_in_place)
        for (int i = 0; i < RANKS; i++)
            for (int j = COUNT / 2; j < COUNT && is_wrong(kind, i); j++)
                out[(close ? close_places : places)[i] + j] = 0;
}

static bool is_chosen(int number, int kind, const char *wish)
{
#ifdef OPEN_MPI
    const int ends = cases[number].openmpi;
#else
    const int ends = cases[number].mpich;
#endif
    if (strcmp(wish, "reductions") == 0)
        return ends == 0 && (kind == ONE_MORE || kind == ONE_LESS);
    return (ends & KIND(kind)) && !(strcmp(wish, "forward") == 0 && is_cut(number));
}

static void run(int number, int kind)
{
    const bool wrong = is_wrong(kind, rank);
    const int n = !wrong ? right : kind == ALL_MORE || kind == ONE_MORE ? 2 * right : right / 2;
    int class = 0;
    long sum = 0;

    for (int i = 0; i < RANKS; i++) {
        wrong_counts[i] = n;
        counts[i] = COUNT;
        places[i] = 2 * COUNT * i;
        close_places[i] = COUNT * i;
    }
    for (int i = 0; i < ROOM; i++)
        in[i] = 1000 * rank + i, out[i] = -i;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Error_class(cases[number].call(n), &class);
    if (kind == ALL_LESS || kind == ONE_LESS)
        forget_room(number, kind);
    for (int i = 0; i < ROOM; i++)
        sum = 31 * sum % 1000003 + out[i];
    printf("%d|%s, %s|%d|%ld\n", rank, cases[number].name, kinds[kind], class, sum);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    char name[20];

    MPI_Init(&argc, &argv);
    if (argc > 2)
        right = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "said-%d.txt", rank);
    if (freopen(name, "w", stdout) == NULL)
        return 2;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        for (int kind = 0; kind < KINDS; kind++)
            if (is_chosen(i, kind, argc > 1 ? argv[1] : ""))
                run(i, kind);
    MPI_Finalize();
    return 0;
}
