/* Counts the messages and bytes that collectives send, from each rank to each other one, by the
 * monitoring of Open MPI (pml_monitoring_enable=1). Arguments: operation:processes:bytes; bytes are
 * those of a block, vector or message. Prints a line a case and rank: case rank count/bytes ... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT, BYTES, KINDS, MOST = 64 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[KINDS];

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

static void look(unsigned long seen[KINDS][MOST])
{
    for (int kind = 0; kind < KINDS; kind++)
        MPI_T_pvar_read(session, handles[kind], seen[kind]);
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

static void count(const char *text, int rank)
{
    static unsigned long before[KINDS][MOST], after[KINDS][MOST];
    char name[MOST], line[64 * MOST];
    int size, bytes, length;
    MPI_Comm comm;

    if (sscanf(text, "%63[^:]:%d:%d", name, &size, &bytes) != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm);
    MPI_Barrier(MPI_COMM_WORLD);
    if (comm != MPI_COMM_NULL) {
        look(before);
        call(name, bytes / (int)sizeof(double), size, comm);
        look(after);
        length = snprintf(line, sizeof line, "%s %d", text, rank);
        for (int i = 0; i < size; i++)
            length +=
                snprintf(line + length, sizeof line - (size_t)length, " %lu/%lu",
                         after[COUNT][i] - before[COUNT][i], after[BYTES][i] - before[BYTES][i]);
        printf("%s\n", line);
        fflush(stdout);
        MPI_Comm_free(&comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, provided;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    attach("pml_monitoring_messages_count", &handles[COUNT]);
    attach("pml_monitoring_messages_size", &handles[BYTES]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++)
        count(argv[i], rank);
    MPI_Finalize();
    return 0;
}
