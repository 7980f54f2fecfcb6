/* Counts the messages and bytes that collectives send between each pair of ranks. Open MPI's
 * monitoring (pml_monitoring_enable=1) counts them, or with MPICH messages_ucx.c. Arguments: a
 * folder, then cases operation:processes:bytes; bytes are the size of a block, vector or message.
 * Each rank writes a file named by its number, with a line per case: case count/bytes ... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT, BYTES, KINDS, MOST = 64 };

struct sent { /* as in messages_ucx.c */
    void *endpoint;
    unsigned long count, bytes;
};

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[KINDS];
static struct sent *ucx;    /* NULL if Open MPI counts */
static int endpoints[MOST]; /* by rank */

static void attach(const char *name, MPI_T_pvar_handle *handle)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    int index, count;

    if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_SIZE, &index) != MPI_SUCCESS ||
        MPI_T_pvar_handle_alloc(session, index, &comm, handle, &count) != MPI_SUCCESS ||
        MPI_T_pvar_start(session, *handle) != MPI_SUCCESS) {
        fprintf(stderr, "%s can't be read\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Find each rank's endpoint: the endpoint with a higher count after a message to the rank. */
static void learn(int rank, int size)
{
    for (int other = 0; other < size; other++) {
        unsigned long before[MOST];
        MPI_Request request;
        int none;

        for (int i = 0; i < MOST; i++)
            before[i] = ucx[i].count;
        MPI_Irecv(&none, 0, MPI_INT, other, 7, MPI_COMM_WORLD, &request);
        MPI_Send(&none, 0, MPI_INT, other, 7, MPI_COMM_WORLD);
        for (int i = 0; i < MOST && other != rank; i++)
            if (ucx[i].count != before[i])
                endpoints[other] = i;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    endpoints[rank] = MOST - 1; /* to itself nothing goes out */
}

static void begin(int rank, int size)
{
    int provided;

    ucx = dlsym(RTLD_DEFAULT, "ucx_sent");
    if (ucx != NULL) {
        learn(rank, size);
        return;
    }
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    attach("pml_monitoring_messages_count", &handles[COUNT]);
    attach("pml_monitoring_messages_size", &handles[BYTES]);
}

static void look(unsigned long seen[KINDS][MOST], int size)
{
    for (int kind = 0; kind < KINDS && ucx == NULL; kind++)
        MPI_T_pvar_read(session, handles[kind], seen[kind]);
    for (int other = 0; other < size && ucx != NULL; other++) {
        seen[COUNT][other] = ucx[endpoints[other]].count;
        seen[BYTES][other] = ucx[endpoints[other]].bytes;
    }
}

static void call(const char *name, int n, int size, MPI_Comm comm)
{
    const size_t room = ((size_t)n + 1) * (size_t)size * sizeof(double);
    double *const in = calloc(1, room), *const out = calloc(1, room);
    int *const counts = calloc((size_t)size, sizeof *counts);
    int *const displs = calloc((size_t)size, sizeof *displs);

    for (int i = 0; i < size; i++) {
        counts[i] = n;
        displs[i] = i * n;
    }
    if (strcmp(name, "allgather") == 0)
        MPI_Allgather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, comm);
    else if (strcmp(name, "allgatherv") == 0)
        MPI_Allgatherv(in, n, MPI_DOUBLE, out, counts, displs, MPI_DOUBLE, comm);
    else if (strcmp(name, "allreduce") == 0)
        MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, comm);
    else if (strcmp(name, "alltoall") == 0)
        MPI_Alltoall(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, comm);
    else if (strcmp(name, "alltoallv") == 0)
        MPI_Alltoallv(in, counts, displs, MPI_DOUBLE, out, counts, displs, MPI_DOUBLE, comm);
    else if (strcmp(name, "barrier") == 0)
        MPI_Barrier(comm);
    else if (strcmp(name, "bcast") == 0)
        MPI_Bcast(in, n, MPI_DOUBLE, 0, comm);
    else if (strcmp(name, "gather") == 0)
        MPI_Gather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, comm);
    else if (strcmp(name, "reduce") == 0)
        MPI_Reduce(in, out, n, MPI_DOUBLE, MPI_SUM, 0, comm);
    else if (strcmp(name, "reduce_scatter") == 0)
        MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE, MPI_SUM, comm);
    else if (strcmp(name, "reduce_scatter_block") == 0)
        MPI_Reduce_scatter_block(in, out, n, MPI_DOUBLE, MPI_SUM, comm);
    else if (strcmp(name, "scatter") == 0)
        MPI_Scatter(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, 0, comm);
    free(in);
    free(out);
    free(counts);
    free(displs);
}

static void count(const char *text, int rank, FILE *out)
{
    static unsigned long before[KINDS][MOST], after[KINDS][MOST];
    char name[MOST];
    int size, bytes;
    MPI_Comm comm;

    if (sscanf(text, "%63[^:]:%d:%d", name, &size, &bytes) != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm);
    MPI_Barrier(MPI_COMM_WORLD);
    if (comm != MPI_COMM_NULL) {
        look(before, size);
        call(name, bytes / (int)sizeof(double), size, comm);
        look(after, size);
        fprintf(out, "%s", text);
        for (int i = 0; i < size; i++)
            fprintf(out, " %lu/%lu", after[COUNT][i] - before[COUNT][i],
                    after[BYTES][i] - before[BYTES][i]);
        fprintf(out, "\n");
        MPI_Comm_free(&comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    char path[4096];
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s/%d", argv[1], rank);
    FILE *const out = fopen(path, "w");

    if (out == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    begin(rank, size);
    for (int i = 2; i < argc; i++)
        count(argv[i], rank, out);
    fclose(out);
    MPI_Finalize();
    return 0;
}
