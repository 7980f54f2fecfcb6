/* A rank that stays in a call which is recorded by call site only, because another rank does not
 * take part. The remaining ranks wait for it in a barrier.
 *
 *     hang_local_calls FUNCTION
 *
 * Rank 1 calls FUNCTION: win_wait, win_start (in libraries where it does not block, win_complete),
 * win_unlock or comm_create_group. Rank 0 sleeps.
 */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

static int rank, *base;
static MPI_Group pair;
static MPI_Win window;

static void sleep_forever(void)
{
    for (;;)
        sleep(1);
}

static void window_wait(void)
{
    MPI_Win_post(pair, 0, window);
    MPI_Win_wait(window);
}

static void window_start(void)
{
    MPI_Win_start(pair, 0, window);
    MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
    MPI_Win_complete(window);
}

static void window_unlock(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
    MPI_Win_unlock(0, window);
}

static void group(void)
{
    MPI_Comm made;

    MPI_Comm_create_group(MPI_COMM_WORLD, pair, 7, &made);
}

int main(int argc, char **argv)
{
    static const int members[] = {0, 1};
    MPI_Group world;
    const char *const function = argc > 1 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, members, &pair);
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    if (rank == 0 && strcmp(function, "win_unlock") == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Win_flush(0, window); /* only now is the lock certain to be held */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        sleep_forever();
    if (rank == 1) {
        if (strcmp(function, "win_wait") == 0)
            window_wait();
        else if (strcmp(function, "win_start") == 0)
            window_start();
        else if (strcmp(function, "win_unlock") == 0)
            window_unlock();
        else
            group();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
