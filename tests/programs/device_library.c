/* Stands in for an MPI library with device support. Preloaded behind the recorder, it makes the
 * device's memory accessible while the library's routine runs. */
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>
#include <sys/mman.h>

static void *memory;
static size_t length;

static void open_memory(void)
{
    if (memory != NULL)
        mprotect(memory, length, PROT_READ | PROT_WRITE);
}

static int close_memory(int error)
{
    if (memory != NULL)
        mprotect(memory, length, PROT_NONE);
    return error;
}

void device_range(void *at, size_t bytes)
{
    memory = at;
    length = bytes;
    close_memory(0);
}

#define ROUTINE(name, parameters, arguments)                                                       \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        open_memory();                                                                             \
        return close_memory(PMPI_##name arguments);                                                \
    }
#define TWO_SIDES const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u

ROUTINE(Bcast, (void *b, int n, MPI_Datatype t, int r, MPI_Comm c), (b, n, t, r, c))
ROUTINE(Allreduce, (const void *in, void *out, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (in, out, n, t, o, c))
ROUTINE(Reduce, (const void *in, void *out, int n, MPI_Datatype t, MPI_Op o, int r, MPI_Comm c),
        (in, out, n, t, o, r, c))
ROUTINE(Reduce_scatter_block,
        (const void *in, void *out, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (in, out, n, t, o, c))
ROUTINE(Allgather, (TWO_SIDES, MPI_Comm c), (in, n, t, out, m, u, c))
ROUTINE(Alltoall, (TWO_SIDES, MPI_Comm c), (in, n, t, out, m, u, c))
ROUTINE(Gather, (TWO_SIDES, int r, MPI_Comm c), (in, n, t, out, m, u, r, c))
ROUTINE(Scatter, (TWO_SIDES, int r, MPI_Comm c), (in, n, t, out, m, u, r, c))

int PMPI_Sendrecv(const void *in, int n, MPI_Datatype t, int to, int tag, void *out, int m,
                  MPI_Datatype u, int from, int tag2, MPI_Comm c, MPI_Status *s)
{
    static int (*real)(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int,
                       int, MPI_Comm, MPI_Status *);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Sendrecv");
    open_memory();
    return close_memory(real(in, n, t, to, tag, out, m, u, from, tag2, c, s));
}
