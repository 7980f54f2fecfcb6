/* Steps with many calls on messages, and collectives on a communicator, by a virtual clock.
 *
 *     message_epochs_collectives CASE
 *
 * CASE: world, dup, idup, short (a duplicate in each step), cart, or self (no collective of all
 * ranks). Each step takes STEP_NS of virtual_clock.c, which is required.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <string.h>

enum { STEPS = 24, COLLECTIVES = 10, SLICES = 50, CALLS = 1200, STEP_NS = 50000000 };
static void (*virtual_advance)(int64_t);

static MPI_Comm communicator(const char *name)
{
    const int periods[] = {0};
    int dims[] = {0}, size;
    MPI_Comm made = MPI_COMM_WORLD;
    MPI_Request request;

    if (strcmp(name, "idup") == 0) {
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(name, "cart") == 0) {
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        dims[0] = size;
        MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &made);
    } else if (strcmp(name, "self") == 0) {
        MPI_Comm_dup(MPI_COMM_SELF, &made);
    } else if (strcmp(name, "world") != 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &made);
    }
    return made;
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "world";
    int value = 0;

    MPI_Init(&argc, &argv);
    *(void **)&virtual_advance = dlsym(RTLD_DEFAULT, "virtual_advance");
    MPI_Comm comm = communicator(name);

    for (int step = 0; step < STEPS; step++) {
        for (int slice = 0; slice < SLICES; slice++) {
            for (int i = 0; i < CALLS; i++)
                MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
            virtual_advance(STEP_NS / SLICES);
        }
        for (int i = 0; i < COLLECTIVES; i++)
            MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, comm);
        if (strcmp(name, "short") == 0) {
            MPI_Comm_free(&comm);
            comm = communicator(name);
        }
    }
    MPI_Finalize();
    return 0;
}
