/* Broadcasts with different sizes on different ranks. Prints the result of each rank.
 *
 *   execute_lengths MOST      sizes of up to MOST ints
 *
 * The root, 0, has one size. Another size is used by rank 1, by the last rank, or by all ranks but
 * the root. Odd ranks have gaps between their ints. Every case has a separate communicator. It
 * begins with a correct call, so that resources of the first call exist. Output line:
 * rank|case|size|error class|number of consecutive ints received|1 if the other ints are unchanged.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOT = 0, PAIRS = 8, WHO = 3 };
static const int sizes[PAIRS][2] = {
    {10, 20},      {20, 10},       {3, 7000},      {7000, 3},
    {9000, 10000}, {30000, 60000}, {60000, 30000}, {50000, 8},
};
static const char *const who_differs[WHO] = {"rank 1", "the last", "all others"};
static int rank, size, most, gap = 1;
static MPI_Datatype type = MPI_INT;

static int value(int i)
{
    return 7 * i + 1;
}

static bool differs(int who)
{
    return rank != ROOT && (who == 2 || rank == (who == 0 ? 1 : size - 1));
}

static void run(const int pair[2], int who)
{
    const int n = differs(who) ? pair[1] : pair[0];
    int *const data = malloc(2 * sizeof(int) * (size_t)most);
    int class = 0, come = 0, right = 5;
    bool alone = true;
    MPI_Comm comm;

    if (data == NULL)
        exit(2);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Bcast(&right, 1, MPI_INT, ROOT, comm);
    for (int i = 0; i < 2 * most; i++)
        data[i] = rank == ROOT && i % gap == 0 && i / gap < n ? value(i / gap) : -1;
    MPI_Error_class(MPI_Bcast(data, n, type, ROOT, comm), &class);
    while (come < n && data[come * gap] == value(come))
        come++;
    for (int i = come * gap; i < 2 * most; i++)
        alone = alone && data[i] == -1;
    for (int i = 0; gap > 1 && i < come; i++)
        alone = alone && data[i * gap + 1] == -1;
    printf("%d|%d to %d, %s|%d|%d|%d|%d\n", rank, pair[0], pair[1], who_differs[who], n, class,
           come, alone);
    fflush(stdout);
    free(data);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    char name[20];

    MPI_Init(&argc, &argv);
    most = argc > 1 ? atoi(argv[1]) : 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank % 2 == 1) {
        gap = 2;
        MPI_Type_create_resized(MPI_INT, 0, gap * (MPI_Aint)sizeof(int), &type);
        MPI_Type_commit(&type);
    }
    snprintf(name, sizeof name, "said-%d.txt", rank);
    if (freopen(name, "w", stdout) == NULL)
        return 2;
    for (int i = 0; i < PAIRS; i++)
        for (int who = 0; who < WHO; who++)
            if (sizes[i][0] <= most && sizes[i][1] <= most)
                run(sizes[i], who);
    MPI_Finalize();
    return 0;
}
