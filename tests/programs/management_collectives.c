/* Calls the recorded management operations; one rank is late for each, the call's index modulo the
 * number of ranks. The late rank sleeps LATE_MS after the other ranks have signalled their arrival.
 *
 *     management_collectives DATA SIGNS
 *
 * Prints "rank operation" for each call. Ends in an MPI_Finalize with one late rank.
 */
#include "handshake.h"
#include <mpi.h>
#include <stdio.h>

enum { LATE_MS = 200 };
static int rank, size, place;

static void late(const char *operation)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d %s\n", place % size, operation);
    signs_come_late(rank, place % size, size, place + 1, LATE_MS);
    place++;
}

static void communicators(void)
{
    MPI_Comm half, copy, grid;
    int dims[] = {0}, periods[] = {1};

    dims[0] = size;
    late("comm_split");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    late("comm_dup");
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    late("cart_create");
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&grid);
}

static void windows(void)
{
    MPI_Win window;
    int *base, value = 7;

    late("win_allocate");
    MPI_Win_allocate(sizeof value, sizeof value, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    late("win_fence");
    MPI_Win_fence(0, window);
    if (*base != value)
        MPI_Abort(MPI_COMM_WORLD, 1);
    late("win_free");
    MPI_Win_free(&window);
}

static void files(const char *name)
{
    MPI_File file;
    MPI_Request request;
    int value = rank, got = -1;

    /* One rank alone is refused; errors of files return. */
    if (rank == 0 && MPI_File_open(MPI_COMM_SELF, "/none/such", MPI_MODE_RDONLY, MPI_INFO_NULL,
                                   &file) == MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    late("file_open");
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_write_at_all(file, rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_at(file, rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_iread_at(file, rank, &got, 1, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (got != rank)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    int token = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    signs_open(argv[2]);
    communicators();
    windows();
    files(argv[1]);
    signs_come_late(rank, 0, size, ++place, LATE_MS);
    if (rank == 0) {
        MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    late("finalize");
    MPI_Finalize();
    return 0;
}
