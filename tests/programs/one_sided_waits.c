/* Planted delays in calls on a window.
 *
 *     one_sided_waits CASE
 *
 *   post       2 ranks: rank 1 sleeps before each MPI_Win_post, for which rank 0 waits
 *   complete   3 ranks: rank 2 sleeps before each MPI_Win_complete, for which rank 0 waits
 *   fence      3 ranks: rank 2 sleeps before each MPI_Win_fence
 *   exclusive  4 ranks: rank 1 sleeps while it holds the lock on rank 0 that ranks 2 and 3 request
 *   shared     4 ranks: the same, but rank 1 and rank 2 have shared locks, rank 2 before rank 3
 */
#include <mpi.h>
#include <string.h>
#include <time.h>

enum { STEPS = 12, LATE_MS = 40 };
static int rank, size;
static MPI_Win window;

static void sleep_late(void)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000};

    nanosleep(&late, NULL);
}

static MPI_Group group_of(int first, int count)
{
    const int members[] = {first, first + 1};
    MPI_Group world, made;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, members, &made);
    MPI_Group_free(&world);
    return made;
}

/* Ranks from 1 on access the window of rank 0, or rank 0 that of rank 1. */
static void epochs(int origins, int late_origin, int late_target)
{
    const int target = late_target >= 0 ? 1 : 0, value = 7;
    MPI_Group others = target == 1 ? group_of(1 - rank, 1)
                       : rank == 0 ? group_of(1, origins)
                                   : group_of(0, 1);

    for (int i = 0; i < STEPS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == target) {
            if (rank == late_target)
                sleep_late();
            MPI_Win_post(others, 0, window);
            MPI_Win_wait(window);
        } else {
            MPI_Win_start(others, 0, window);
            MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, window);
            if (rank == late_origin)
                sleep_late();
            MPI_Win_complete(window);
        }
    }
    MPI_Group_free(&others);
}

static void fences(void)
{
    MPI_Win_fence(0, window);
    for (int i = 0; i < STEPS; i++) {
        if (rank == 2)
            sleep_late();
        MPI_Win_fence(0, window);
    }
}

static void lock(int type)
{
    const int value = 7;

    MPI_Win_lock(type, 0, 0, window);
    MPI_Put(&value, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
}

static void locks(int type)
{
    for (int i = 0; i < STEPS; i++) {
        if (rank == 1) {
            lock(type);
            MPI_Win_flush(0, window); /* only now is the lock certain to be held */
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            sleep_late();
            MPI_Win_unlock(0, window);
        } else if (rank > 1) {
            if (rank == 3 && type == MPI_LOCK_SHARED)
                MPI_Recv(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            lock(rank == 2 ? type : MPI_LOCK_EXCLUSIVE);
            MPI_Win_unlock(0, window);
            if (rank == 2 && type == MPI_LOCK_SHARED)
                MPI_Send(NULL, 0, MPI_INT, 3, 0, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    int *base;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(8 * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    if (strcmp(name, "post") == 0)
        epochs(1, -1, 1);
    else if (strcmp(name, "complete") == 0)
        epochs(2, 2, -1);
    else if (strcmp(name, "fence") == 0)
        fences();
    else
        locks(strcmp(name, "shared") == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
