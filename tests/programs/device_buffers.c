/* Collectives on device memory, which the host must not access.
 *
 *   device_buffers RUNTIME early|late|idle
 *
 * early: the runtime is in use before the first collective. late: collectives on host memory come
 * first. idle: the runtime is loaded and never used. Rank 0's buffers are always in host memory.
 * Exits with 1 if a result is wrong, or if the runtime's last error has changed.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { COUNT = 100, ROOM = 1 << 20, HALF = ROOM / 2 };
static int rank, size, wrong;
static char *memory;
static int *in, *out;
static bool on_device;

static void look(bool may)
{
    if (on_device)
        mprotect(memory, ROOM, may ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static void prepare(bool in_place, int at)
{
    look(true);
    for (int i = 0; i < HALF / (int)sizeof(int); i++) {
        in[i] = 1000 * rank + i % 1000;
        out[i] = -1;
    }
    if (in_place)
        memcpy(&out[at], in, COUNT * (size_t)size * sizeof(int));
    look(false);
}

static void expect(const char *name, int count, int first, int step_of_block, int step)
{
    look(true);
    for (int i = 0; i < count; i++) {
        const int value = first + i / COUNT * step_of_block + i % COUNT * step;

        if (out[i] != value) {
            printf("%d %s: %d at %d, not %d\n", rank, name, out[i], i, value);
            wrong = 1;
            break;
        }
    }
    look(false);
}

static void collectives(MPI_Comm comm)
{
    const int sum = 1000 * size * (size - 1) / 2, root = size - 1, all = COUNT * size;

    for (int r = 0; r < size; r++) {
        prepare(false, 0);
        MPI_Bcast(rank == r ? in : out, COUNT, MPI_INT, r, comm);
        if (rank != r)
            expect("bcast", COUNT, 1000 * r, 0, 1);
    }
    prepare(false, 0);
    MPI_Allreduce(in, out, COUNT, MPI_INT, MPI_SUM, comm);
    expect("allreduce", COUNT, sum, 0, size);
    prepare(true, 0);
    MPI_Allreduce(MPI_IN_PLACE, out, COUNT, MPI_INT, MPI_SUM, comm);
    expect("allreduce in place", COUNT, sum, 0, size);
    prepare(false, 0);
    MPI_Reduce(in, out, COUNT, MPI_INT, MPI_SUM, root, comm);
    if (rank == root)
        expect("reduce", COUNT, sum, 0, size);
    prepare(false, 0);
    MPI_Reduce_scatter_block(in, out, COUNT, MPI_INT, MPI_SUM, comm);
    expect("reduce_scatter_block", COUNT, sum + size * COUNT * rank, 0, size);
    prepare(true, 0);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, out, COUNT, MPI_INT, MPI_SUM, comm);
    expect("reduce_scatter_block in place", COUNT, sum + size * COUNT * rank, 0, size);
    prepare(false, 0);
    MPI_Allgather(in, COUNT, MPI_INT, out, COUNT, MPI_INT, comm);
    expect("allgather", all, 0, 1000, 1);
    prepare(true, rank * COUNT);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, out, COUNT, MPI_INT, comm);
    expect("allgather in place", all, 0, 1000, 1);
    prepare(false, 0);
    MPI_Alltoall(in, COUNT, MPI_INT, out, COUNT, MPI_INT, comm);
    expect("alltoall", all, COUNT * rank, 1000, 1);
    prepare(true, 0);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, out, COUNT, MPI_INT, comm);
    expect("alltoall in place", all, COUNT * rank, 1000, 1);
    prepare(false, 0);
    MPI_Gather(in, COUNT, MPI_INT, out, COUNT, MPI_INT, root, comm);
    if (rank == root)
        expect("gather", all, 0, 1000, 1);
    prepare(false, 0);
    MPI_Scatter(in, COUNT, MPI_INT, out, COUNT, MPI_INT, root, comm);
    expect("scatter", COUNT, 1000 * root + COUNT * rank, 0, 1);
}

static void use_device(void *runtime)
{
    void (*initialise)(void), (*mark)(void *, size_t), (*range)(void *, size_t);

    *(void **)&initialise = dlsym(runtime, "device_initialise");
    *(void **)&mark = dlsym(runtime, "device_mark");
    *(void **)&range = dlsym(RTLD_DEFAULT, "device_range");
    initialise();
    if (rank > 0) {
        mark(memory, ROOM);
        range(memory, ROOM);
        on_device = true;
    }
}

int main(int argc, char **argv)
{
    int (*last_error)(void);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    in = (int *)memory;
    out = (int *)(memory + HALF);
    const bool late = argc > 2 && strcmp(argv[2], "late") == 0;

    if (late)
        collectives(MPI_COMM_WORLD);
    void *const runtime = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (runtime == NULL)
        return 2;
    if (late)
        collectives(MPI_COMM_WORLD);
    use_device(runtime);
    collectives(MPI_COMM_WORLD);
    look(true);
    *(void **)&last_error = dlsym(runtime, "hipPeekAtLastError");
    wrong |= last_error() != 0;
    MPI_Finalize();
    return wrong;
}
