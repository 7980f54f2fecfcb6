/* Collectives with checked results, when memory is short.
 *
 *   memory_refused_collectives REPEATS BYTES
 *
 * Each repeat runs reductions, and regular and irregular data movement, packed and with gaps. It
 * uses the world, a duplicate and a half of it; blocks have up to BYTES. At the end each rank
 * prints the growth of its resident memory since MPI_Init.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static long status_kb(const char *name)
{
    char line[200];
    long found = 0;
    FILE *const f = fopen("/proc/self/status", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            found = atol(line + strlen(name) + 1);
    if (f != NULL)
        fclose(f);
    return found;
}

static void check(int holds, const char *what, int place)
{
    if (holds)
        return;
    fprintf(stderr, "rank %d: wrong data in %s at %d\n", rank, what, place);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int value(int from, int to, int i)
{
    return 1000003 * from + 1009 * to + i;
}

/* ---- one call each; `n` numbers a block */

static int *room(int numbers)
{
    int *const made = malloc(sizeof *made * (size_t)numbers);

    if (made == NULL)
        abort(); /* the program's own memory never fails here */
    memset(made, 255, sizeof *made * (size_t)numbers);
    return made;
}

static void alltoall(MPI_Comm comm, int n, MPI_Datatype type, int stride)
{
    int me, p;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &p);
    int *const in = room(p * n * stride), *const out = room(p * n * stride);

    for (int to = 0; to < p; to++)
        for (int i = 0; i < n; i++)
            in[(to * n + i) * stride] = value(me, to, i);
    MPI_Alltoall(in, n, type, out, n, type, comm);
    for (int from = 0; from < p; from++)
        for (int i = 0; i < n; i++)
            check(out[(from * n + i) * stride] == value(from, me, i), "alltoall", i);
    free(in);
    free(out);
}

/* Blocks of their own lengths, with gaps between them: their places are in reverse order. */
static void alltoallv(MPI_Comm comm, int n, MPI_Datatype type, int stride)
{
    int me, p, all = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &p);
    int *const lists = room(4 * p), *sent = lists, *from = lists + p, *got = lists + 2 * p,
               *to = lists + 3 * p;

    for (int i = p - 1; i >= 0; i--) {
        sent[i] = 1 + n * (i + 1) / p;
        got[i] = 1 + n * (me + 1) / p;
        from[i] = to[i] = all;
        all += n + 2;
    }
    int *const in = room(all * stride), *const out = room(all * stride);

    for (int k = 0; k < p; k++)
        for (int i = 0; i < sent[k]; i++)
            in[(from[k] + i) * stride] = value(me, k, i);
    MPI_Alltoallv(in, sent, from, type, out, got, to, type, comm);
    for (int k = 0; k < p; k++)
        for (int i = 0; i < got[k]; i++)
            check(out[(to[k] + i) * stride] == value(k, me, i), "alltoallv", i);
    free(in);
    free(out);
    free(lists);
}

static void allgatherv(MPI_Comm comm, int n, MPI_Datatype type, int stride)
{
    int me, p, all = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &p);
    int *const counts = room(2 * p), *const places = counts + p;

    for (int i = 0; i < p; i++) {
        counts[i] = n * (i + 1) / p;
        places[i] = all;
        all += counts[i] + 1;
    }
    int *const in = room(n * stride), *const out = room(all * stride);

    for (int i = 0; i < counts[me]; i++)
        in[i * stride] = value(me, 0, i);
    MPI_Allgatherv(in, counts[me], type, out, counts, places, type, comm);
    for (int k = 0; k < p; k++)
        for (int i = 0; i < counts[k]; i++)
            check(out[(places[k] + i) * stride] == value(k, 0, i), "allgatherv", i);
    free(in);
    free(out);
    free(counts);
}

static void gatherv_scatterv(MPI_Comm comm, int n, MPI_Datatype type, int stride)
{
    int me, p, all = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &p);
    int *const counts = room(2 * p), *const places = counts + p;

    for (int i = p - 1; i >= 0; i--) {
        counts[i] = 1 + n * (i + 1) / p;
        places[i] = all;
        all += counts[i] + 1;
    }
    int *const own = room((n + 1) * stride), *const whole = room(all * stride);

    for (int i = 0; i < counts[me]; i++)
        own[i * stride] = value(me, 1, i);
    MPI_Gatherv(own, counts[me], type, whole, counts, places, type, 0, comm);
    for (int k = 0; me == 0 && k < p; k++)
        for (int i = 0; i < counts[k]; i++) {
            check(whole[(places[k] + i) * stride] == value(k, 1, i), "gatherv", i);
            whole[(places[k] + i) * stride]++;
        }
    MPI_Scatterv(whole, counts, places, type, own, counts[me], type, 0, comm);
    for (int i = 0; i < counts[me]; i++)
        check(own[i * stride] == value(me, 1, i) + 1, "scatterv", i);
    free(own);
    free(whole);
    free(counts);
}

static void bcast(MPI_Comm comm, int n, MPI_Datatype type, int stride)
{
    int me, p;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &p);
    int *const data = room(n * stride);

    for (int i = 0; me == p - 1 && i < n; i++)
        data[i * stride] = value(7, 7, i);
    MPI_Bcast(data, n, type, p - 1, comm);
    for (int i = 0; i < n; i++)
        check(data[i * stride] == value(7, 7, i), "bcast", i);
    free(data);
}

static void reductions(MPI_Comm comm, int n)
{
    int me, p;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &p);
    int *const in = room(p * n), *const out = room(p * n);

    for (int i = 0; i < p * n; i++)
        in[i] = me + i % 1000;
    MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        check(out[i] == p * (p - 1) / 2 + p * (i % 1000), "allreduce", i);
    MPI_Reduce(in, out, n, MPI_INT, MPI_MAX, 0, comm);
    for (int i = 0; me == 0 && i < n; i++)
        check(out[i] == p - 1 + i % 1000, "reduce", i);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        check(in[i] == p * (p - 1) / 2 + p * ((me * n + i) % 1000), "reduce_scatter_block", i);
    MPI_Barrier(comm);
    free(in);
    free(out);
}

static void calls(MPI_Comm comm, int n, MPI_Datatype gaps)
{
    MPI_Datatype own = rank == 1 ? gaps : MPI_INT; /* known to this rank alone */
    const int stride = rank == 1 ? 2 : 1;

    alltoall(comm, n, MPI_INT, 1);
    alltoall(comm, n, own, stride);
    alltoallv(comm, n, MPI_INT, 1);
    alltoallv(comm, n, own, stride);
    allgatherv(comm, n, gaps, 2); /* MPICH's own ring takes one extent on all ranks for granted */
    gatherv_scatterv(comm, n, own, stride);
    bcast(comm, n, own, stride);
    reductions(comm, n);
}

int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 1, bytes = argc > 2 ? atoi(argv[2]) : 64;
    MPI_Datatype gaps;
    MPI_Comm twin, half;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps);
    MPI_Type_commit(&gaps);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    const long before = status_kb("VmRSS:");

    for (int i = 0; i < repeats; i++) {
        const int n = bytes / (int)sizeof(int) >> (i % 3);

        calls(MPI_COMM_WORLD, n, gaps);
        calls(i % 2 ? twin : half, n, gaps);
    }
    printf("rank %d kept %ld KB, had %ld KB of addresses\n", rank, status_kb("VmRSS:") - before,
           status_kb("VmPeak:"));
    MPI_Comm_free(&twin);
    MPI_Comm_free(&half);
    MPI_Type_free(&gaps);
    MPI_Finalize();
    return 0;
}
