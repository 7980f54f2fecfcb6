/* Calls of one rank on windows and files, on 2 ranks.
 *
 *     local_calls FILE SHARED_FILE
 *
 * In each of STEPS epochs, rank 1 sleeps LATE_MS before it exposes its window, so rank 0 waits for
 * it in MPI_Win_start or MPI_Win_complete. Then rank 0 makes each of the other calls once,
 * and both ranks use a file.
 */
#include <mpi.h>
#include <time.h>

enum { STEPS = 20, LATE_MS = 20 };
static int rank;

static void sleep_late(void)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000};

    nanosleep(&late, NULL);
}

static void epochs(MPI_Win window, MPI_Group other)
{
    const int value = 7;

    for (int i = 0; i < STEPS; i++) {
        if (rank == 0) {
            MPI_Win_start(other, 0, window);
            MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
            MPI_Win_complete(window);
        } else {
            sleep_late();
            MPI_Win_post(other, 0, window);
            MPI_Win_wait(window);
        }
    }
}

static void others(const char *name, MPI_Win window)
{
    MPI_File file;
    int value = 5;

    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    MPI_Get(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
    MPI_Win_unlock(1, window);
    if (value != 7)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

/* Rank 0 writes 3 ints, rank 1 reads 2 of them, and both start to read 1. */
static void shared_file(const char *name)
{
    MPI_File file;
    MPI_Request request;
    int values[3] = {1, 2, 3};

    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (rank == 0) {
        MPI_File_iwrite_at(file, 0, values, 3, MPI_INT, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    if (rank == 1)
        MPI_File_read_at(file, 0, values, 2, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_iread_all(file, values, 1, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    MPI_Group world, other;
    MPI_Win window;
    int *base;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    const int others_rank = 1 - rank;

    MPI_Group_incl(world, 1, &others_rank, &other);
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    epochs(window, other);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && argc > 1)
        others(argv[1], window);
    if (argc > 2)
        shared_file(argv[2]);
    MPI_Win_free(&window);
    MPI_Group_free(&world);
    MPI_Group_free(&other);
    MPI_Finalize();
    return 0;
}
