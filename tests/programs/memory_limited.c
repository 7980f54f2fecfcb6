/* Collectives with checked results in a process that may allocate little more memory.
 *
 *   memory_limited KB REPEATS INTS
 *
 * After MPI_Init the process's address space may grow by KB, as with `ulimit -v` but excluding the
 * library's start. Blocks have INTS numbers, or an eighth of that, so that several calls request
 * memory. The program allocates its memory before.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { GAP = 2, MOST_RANKS = 4 };

static int rank, size, *in, *out;

static long address_space_kb(void)
{
    char line[200];
    long found = 0;
    FILE *const f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "VmSize:", 7) == 0)
            found = atol(line + 7);
    if (f != NULL)
        fclose(f);
    return found;
}

static int wrong_in_calls(MPI_Comm comm, int n, int k, MPI_Datatype gaps)
{
    const int root = k % size;
    int wrong = 0;

    for (int i = 0; i < size * n; i++)
        in[i] = 1000 * rank + k + i;
    MPI_Alltoall(in, n, MPI_INT, out, n, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        wrong += out[from * n] != 1000 * from + k + rank * n;
    MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, comm);
    wrong += out[n - 1] != size * (size - 1) / 2 * 1000 + size * (k + n - 1);
    for (int i = 0; i < n; i++)
        out[GAP * i] = rank == root ? i + k : -1;
    MPI_Bcast(out, n, gaps, root, comm);
    wrong += out[GAP * (n - 1)] != n - 1 + k;
    MPI_Allgather(in, n, MPI_INT, out, n, MPI_INT, comm);
    wrong += out[(size - 1) * n] != 1000 * (size - 1) + k;
    MPI_Barrier(comm);
    return wrong;
}

int main(int argc, char **argv)
{
    const long more = argc > 3 ? atol(argv[1]) : 0;
    const int repeats = argc > 3 ? atoi(argv[2]) : 0, most = argc > 3 ? atoi(argv[3]) : 0;
    const size_t bytes = sizeof(int) * (size_t)most * MOST_RANKS;
    MPI_Datatype gaps;
    MPI_Comm twin;
    int wrong = 0;

    in = malloc(bytes);
    out = malloc(bytes);
    if (in == NULL || out == NULL)
        return 2;
    memset(in, 1, bytes);
    memset(out, 1, bytes);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Type_create_resized(MPI_INT, 0, GAP * (MPI_Aint)sizeof(int), &gaps);
    MPI_Type_commit(&gaps);
    const rlim_t limit = (rlim_t)(address_space_kb() + more) * 1024;
    const struct rlimit both = {limit, limit};

    setrlimit(RLIMIT_AS, &both);
    for (int k = 0; k < repeats; k++)
        wrong += wrong_in_calls(k % 2 ? twin : MPI_COMM_WORLD, k % 3 ? most / 8 : most, k, gaps);
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Type_free(&gaps);
    MPI_Comm_free(&twin);
    MPI_Finalize();
    return wrong != 0;
}
