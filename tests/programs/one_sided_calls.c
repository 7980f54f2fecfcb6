/* Calls on two windows with known targets and bytes, on 3 ranks.
 *
 * Each rank accumulates 1 int at rank 0, 2 at rank 1 and so on, gets as many, and puts twice as many,
 * in epochs of locks. A second window belongs to ranks 2 and 1, in this order. Rank 2 exposes it to
 * rank 1 in epochs with groups. Calls with wrong arguments return
 * errors, and a group may be empty.
 */
#include <mpi.h>

enum { STEPS = 5, MOST = 8 };
static int rank, size;

static void locks(MPI_Win window)
{
    const int ones[MOST] = {1, 1, 1, 1, 1, 1, 1, 1};
    int found[MOST];

    for (int target = 0; target < size; target++) {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
        MPI_Accumulate(ones, target + 1, MPI_INT, target, 0, target + 1, MPI_INT, MPI_SUM, window);
        MPI_Win_unlock(target, window);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        MPI_Get(found, target + 1, MPI_INT, target, 0, target + 1, MPI_INT, window);
        MPI_Put(ones, 2 * (target + 1), MPI_INT, target, MOST, 2 * (target + 1), MPI_INT, window);
        MPI_Win_unlock(target, window);
    }
}

/* Rank 0 of the communicator posts, the other one starts. */
static void epochs(MPI_Win window, MPI_Comm comm)
{
    MPI_Group all, other;
    int here, value = 3;

    MPI_Comm_rank(comm, &here);
    MPI_Comm_group(comm, &all);
    for (int i = 0; i < STEPS; i++) {
        const int there = 1 - here;

        MPI_Group_incl(all, 1, &there, &other);
        if (here == 0) {
            MPI_Win_post(other, 0, window);
            MPI_Win_wait(window);
        } else {
            MPI_Win_start(other, 0, window);
            MPI_Put(&value, 1, MPI_INT, there, 0, 1, MPI_INT, window);
            MPI_Win_complete(window);
        }
        MPI_Group_free(&other);
    }
    MPI_Group_free(&all);
}

static void wrong(MPI_Win window)
{
    int value = 0;

    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    if (MPI_Put(&value, 1, MPI_INT, size + 7, 0, 1, MPI_INT, window) == MPI_SUCCESS ||
        MPI_Win_lock(MPI_LOCK_SHARED, -77, 0, window) == MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_start(MPI_GROUP_EMPTY, 0, window);
    MPI_Win_complete(window);
}

int main(int argc, char **argv)
{
    MPI_Win window, again;
    MPI_Comm reversed;
    int *base;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(64 * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                     &window);
    locks(window);
    wrong(window);
    MPI_Win_free(&window);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, -rank,
                   &reversed); /* the library may reuse the handle */
    if (rank > 0) {
        MPI_Win_allocate(64 * sizeof *base, sizeof *base, MPI_INFO_NULL, reversed, &base, &again);
        epochs(again, reversed);
        MPI_Win_free(&again);
    }
    MPI_Comm_free(&reversed);
    MPI_Finalize();
    return 0;
}
