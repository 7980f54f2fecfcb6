/* Collectives with requested library algorithms. library_algorithm_functions.c (Open MPI) records
 * the functions called; library_algorithm_variables.c (MPICH) records the variables set.
 * Arguments: a folder, then cases operation:processes:bytes; bytes are the size of a block, vector
 * or message. Each rank writes a file named by its number, with a line per case: case error
 * names... For variables, the last name is the state after the call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int call(const char *name, int bytes, int size, MPI_Comm comm)
{
    const MPI_Datatype type = bytes % 8 == 0 ? MPI_DOUBLE : MPI_SIGNED_CHAR;
    const int n = bytes % 8 == 0 ? bytes / 8 : bytes;
    const size_t room = ((size_t)bytes + 1) * (size_t)size;
    char *const in = calloc(1, room), *const out = calloc(1, room);
    int counts[64], displs[64], error = MPI_SUCCESS;

    for (int i = 0; i < size; i++) {
        counts[i] = n;
        displs[i] = i * n;
    }
#define IS(text) (strcmp(name, text) == 0)
    if (IS("allgather"))
        error = MPI_Allgather(in, n, type, out, n, type, comm);
    else if (IS("allgatherv"))
        error = MPI_Allgatherv(in, n, type, out, counts, displs, type, comm);
    else if (IS("allreduce"))
        error = MPI_Allreduce(in, out, n, type, MPI_SUM, comm);
    else if (IS("alltoall"))
        error = MPI_Alltoall(in, n, type, out, n, type, comm);
    else if (IS("alltoallv"))
        error = MPI_Alltoallv(in, counts, displs, type, out, counts, displs, type, comm);
    else if (IS("barrier"))
        error = MPI_Barrier(comm);
    else if (IS("bcast"))
        error = MPI_Bcast(in, n, type, 0, comm);
    else if (IS("gather"))
        error = MPI_Gather(in, n, type, out, n, type, 0, comm);
    else if (IS("gatherv"))
        error = MPI_Gatherv(in, n, type, out, counts, displs, type, 0, comm);
    else if (IS("reduce"))
        error = MPI_Reduce(in, out, n, type, MPI_SUM, 0, comm);
    else if (IS("reduce_scatter"))
        error = MPI_Reduce_scatter(in, out, counts, type, MPI_SUM, comm);
    else if (IS("reduce_scatter_block"))
        error = MPI_Reduce_scatter_block(in, out, n, type, MPI_SUM, comm);
    else if (IS("scatter"))
        error = MPI_Scatter(in, n, type, out, n, type, 0, comm);
    else if (IS("scatterv"))
        error = MPI_Scatterv(in, counts, displs, type, out, n, type, 0, comm);
    free(in);
    free(out);
    return error;
}

int main(int argc, char **argv)
{
    const char **const called = dlsym(RTLD_DEFAULT, "own_called");
    int *const calls = dlsym(RTLD_DEFAULT, "own_calls");
    void (*look)(const char *);
    MPI_Comm comms[64] = {0};
    char path[4096], name[64];

    *(void **)&look = dlsym(RTLD_DEFAULT, "own_look");
    int rank, size, most, bytes;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &most);
    for (int i = 2; i <= most; i++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank < i ? 0 : MPI_UNDEFINED, rank, &comms[i]);
        if (comms[i] != MPI_COMM_NULL)
            MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
    }
    snprintf(path, sizeof path, "%s/%d", argv[1], rank);
    FILE *const out = fopen(path, "w");

    for (int i = 2; i < argc && out != NULL; i++) {
        if (sscanf(argv[i], "%63[^:]:%d:%d", name, &size, &bytes) != 3)
            MPI_Abort(MPI_COMM_WORLD, 2);
        if (comms[size] == MPI_COMM_NULL)
            continue;
        if (calls != NULL)
            *calls = 0;
        const int error = call(name, bytes, size, comms[size]);

        if (look != NULL)
            look(name);
        fprintf(out, "%s %d", argv[i], error != MPI_SUCCESS);
        for (int j = 0; calls != NULL && j < *calls; j++)
            fprintf(out, " %s", called[j]);
        fprintf(out, "\n");
    }
    if (out != NULL)
        fclose(out);
    MPI_Finalize();
    return 0;
}
