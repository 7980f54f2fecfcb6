/* The machine table: the time of one message T(m) within and between nodes, one way and both ways
 * at once, and of reducing a byte. By ping-pong of rank 0 with a neighbour on its node, and with
 * another node's leader.
 *
 * At Init within 50 ms: few sizes, as many repetitions as fit, what does not fit is left out and
 * said. `calibrate` takes its time. The shortest of the repetitions counts: it is what the machine
 * can do, the rest is what disturbed it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/text.h"
#include "machine/clock.h"
#include "machine/machine.h"

enum { TAG = 19938, TAG_DONE, LARGEST = 1 << 22, VECTOR = 8192 };

/* What all ranks plan with: the slowest link that was measured; an Ethernet's, where none was. */
struct link machine_link = {20000, 1, 0, 0};

/* How long so many bytes take through a port that has been idle before the first of them. */
double machine_passing(const struct link *l, double bytes)
{
    const double late = bytes > l->buffer ? bytes - l->buffer : 0;

    return l->beta * (bytes - late) + (l->pace > l->beta ? l->pace : l->beta) * late;
}

struct command {
    int64_t bytes, repetitions, both;
};

static char *buffers[2];

static void exchange(int peer, int bytes, bool both, bool first)
{
    if (both) {
        pmpi.Sendrecv(buffers[0], bytes, MPI_BYTE, peer, TAG, buffers[1], bytes, MPI_BYTE, peer,
                      TAG, recorder.private, MPI_STATUS_IGNORE);
        return;
    }
    if (first)
        pmpi.Send(buffers[0], bytes, MPI_BYTE, peer, TAG, recorder.private);
    pmpi.Recv(buffers[1], bytes, MPI_BYTE, peer, TAG, recorder.private, MPI_STATUS_IGNORE);
    if (!first)
        pmpi.Send(buffers[0], bytes, MPI_BYTE, peer, TAG, recorder.private);
}

/* The partner does as it is told until the repetitions are 0. */
static void follow(int peer)
{
    struct command c = {0};

    for (;;) {
        pmpi.Recv(&c, sizeof c, MPI_BYTE, peer, TAG, recorder.private, MPI_STATUS_IGNORE);
        if (c.repetitions == 0)
            return;
        for (int64_t i = 0; i < c.repetitions; i++)
            exchange(peer, (int)c.bytes, c.both != 0, false);
    }
}

/* The shortest time of one message, in ns. */
static double lead(int peer, int bytes, bool both, int repetitions)
{
    const struct command c = {bytes, repetitions, both};
    int64_t best = INT64_MAX;

    pmpi.Send(&c, sizeof c, MPI_BYTE, peer, TAG, recorder.private);
    for (int i = 0; i < repetitions; i++) {
        const int64_t before = now_ns();

        exchange(peer, bytes, both, true);
        const int64_t took = now_ns() - before;

        best = took < best ? took : best;
    }
    return both ? (double)best : (double)best / 2;
}

struct table {
    int count, sizes[24];
    double one_way[24], both_ways[24];
};

static double shorter(double a, double b)
{
    return a < b ? a : b;
}

/* Passes over all sizes while there is time: a disturbance then hits one pass, not one size. */
static void lead_all(struct table *t, int peer, bool full)
{
    static const int quick[] = {0, 1024, 16384, 131072};
    const struct command end = {0};
    const int64_t deadline = now_ns() + (full ? INT64_C(4000000000) : 20000000);
    const int wanted = full ? 23 : 4, passes = full ? 100 : 10;

    for (int pass = 0; pass < passes; pass++)
        for (int i = 0; i < wanted; i++) {
            if (now_ns() > deadline && (pass > 0 || i >= 2))
                goto done;
            const int bytes = !full ? quick[i] : i == 0 ? 0 : 1 << (i - 1);
            const double one = lead(peer, bytes, false, 2), both = lead(peer, bytes, true, 2);

            t->sizes[i] = bytes;
            t->one_way[i] = pass == 0 ? one : shorter(one, t->one_way[i]);
            t->both_ways[i] = pass == 0 ? both : shorter(both, t->both_ways[i]);
            t->count = pass == 0 ? i + 1 : t->count;
        }
done:
    pmpi.Send(&end, sizeof end, MPI_BYTE, peer, TAG, recorder.private);
    /* A message takes no longer than a larger one: where it did, it was disturbed. */
    for (int i = t->count - 2; i >= 0; i--) {
        t->one_way[i] = shorter(t->one_way[i], t->one_way[i + 1]);
        t->both_ways[i] = shorter(t->both_ways[i], t->both_ways[i + 1]);
    }
}

/* Least squares of t = alpha + beta m, weighted by 1/t: small messages count as much as large. */
static void fit(const struct table *t, double *alpha, double *beta)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;

    for (int i = 0; i < t->count; i++) {
        const double time = t->one_way[i] > 1 ? t->one_way[i] : 1, u = 1 / (time * time);

        w += u;
        x += u * t->sizes[i];
        y += u * time;
        xx += u * t->sizes[i] * (double)t->sizes[i];
        xy += u * t->sizes[i] * time;
    }
    const double determinant = w * xx - x * x;

    *beta = t->count > 1 && determinant > 0 ? (w * xy - x * y) / determinant : 0;
    *beta = *beta < 0 ? 0 : *beta;
    *alpha = w > 0 ? (y - *beta * x) / w : 0;
}

/* What a byte more takes where messages are large, and how many bytes a port's buffer takes at the
 * other pace before. */
static void fit_buffer(const struct table *t, double alpha, double beta, double *pace,
                       double *buffer)
{
    const int last = t->count - 1;
    double steps;

    *pace = beta;
    *buffer = 0;
    if (last < 1)
        return;
    steps = (t->one_way[last] - t->one_way[last - 1]) / (t->sizes[last] - t->sizes[last - 1]);
    if (steps <= beta)
        return;
    *pace = steps;
    *buffer = (alpha + steps * t->sizes[last] - t->one_way[last]) / (steps - beta);
    *buffer = *buffer > 0 ? *buffer : 0;
}

static void link_add(struct text *out, const struct table *t)
{
    double alpha, beta, pace, buffer;

    if (t->count == 0) {
        text_add(out, "null");
        return;
    }
    fit(t, &alpha, &beta);
    fit_buffer(t, alpha, beta, &pace, &buffer);
    text_add(out, "{\"alpha_ns\": %.1f, \"beta_ns_per_byte\": %.6f, ", alpha, beta);
    text_add(out, "\"pace_ns_per_byte\": %.6f, \"buffer_bytes\": %.0f, \"sizes\": [", pace, buffer);
    for (int i = 0; i < t->count; i++)
        text_add(out, "%s%d", i > 0 ? ", " : "", t->sizes[i]);
    text_add(out, "], \"one_way_ns\": [");
    for (int i = 0; i < t->count; i++)
        text_add(out, "%s%.1f", i > 0 ? ", " : "", t->one_way[i]);
    text_add(out, "], \"both_ways_ns\": [");
    for (int i = 0; i < t->count; i++)
        text_add(out, "%s%.1f", i > 0 ? ", " : "", t->both_ways[i]);
    text_add(out, "]}");
}

/* One message with a peer, seen from the leader; both take part, the others pass. */
static void measure_link(struct table *t, int rank, int peer, bool full)
{
    if (rank == clock_leader(0))
        lead_all(t, peer, full);
    else if (rank == peer)
        follow(clock_leader(0));
}

static double gamma_of(MPI_Datatype type, int bytes, MPI_Op op, int repetitions)
{
    int64_t best = INT64_MAX;

    memset(buffers[0], 0, VECTOR);
    memset(buffers[1], 0, VECTOR);
    for (int i = 0; i < repetitions; i++) {
        const int64_t before = now_ns();

        pmpi.Reduce_local(buffers[0], buffers[1], VECTOR / bytes, type, op);
        const int64_t took = now_ns() - before;

        best = took < best ? took : best;
    }
    return (double)best / VECTOR;
}

/* Open MPI's MPI_Reduce_local looks into MPI_COMM_WORLD, which Sessions alone do not make. */
bool machine_reduces(void)
{
#ifdef MPIPROF_ABI_openmpi
    int initialised = 0;

    pmpi.Initialized(&initialised);
    return initialised != 0;
#else
    return true;
#endif
}

static void gamma_add(struct text *out, bool full)
{
    if (!machine_reduces()) {
        text_add(out, ", \"gamma_sum_ns_per_byte\": null, \"gamma_maxloc_ns_per_byte\": null}");
        return;
    }
    text_add(out, ", \"gamma_sum_ns_per_byte\": %.6f, \"gamma_maxloc_ns_per_byte\": %.6f}",
             gamma_of(MPI_DOUBLE, 8, MPI_SUM, full ? 1000 : 20),
             gamma_of(MPI_DOUBLE_INT, 16, MPI_MAXLOC, full ? 1000 : 20));
}

/* The other ranks of the nodes that measure sleep meanwhile: where ranks outnumber cores, those
 * that poll would be what is measured. */
static void stand_by(int leader)
{
    const struct timespec pause = {.tv_nsec = 500000};
    MPI_Request request;
    char word = 0;
    int done = 0;

    pmpi.Irecv(&word, 1, MPI_BYTE, leader, TAG_DONE, recorder.private, &request);
    for (;;) {
        pmpi.Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        nanosleep(&pause, NULL);
    }
}

static void release(int node, int neighbour, int size)
{
    const char word = 1;

    for (int i = 0; i < size; i++)
        if (i != clock_leader(node) && i != neighbour && clock_on_node(i, node))
            pmpi.Send(&word, 1, MPI_BYTE, i, TAG_DONE, recorder.private);
}

/* Every member of recorder.private calls it; the first leader gets the table as JSON. */
void machine_measure(struct text *out, bool full)
{
    struct table within = {0}, between = {0};
    int rank = -1, size = 0;

    pmpi.Comm_rank(recorder.private, &rank);
    pmpi.Comm_size(recorder.private, &size);
    const int neighbour = clock_neighbour(size);
    const bool takes_part = rank == clock_leader(0) || rank == neighbour ||
                            (clock_node_count() > 1 && rank == clock_leader(1));

    if (!takes_part) {
        for (int node = 0; node < 2 && node < clock_node_count(); node++)
            if (clock_on_node(rank, node))
                stand_by(clock_leader(node));
        return;
    }
    static char quick[2][131072];
    for (int i = 0; i < 2; i++)
        buffers[i] = full ? calloc(1, LARGEST) : quick[i];
    if (buffers[0] == NULL || buffers[1] == NULL)
        abort(); /* `calibrate` alone: no user's program */
    if (neighbour >= 0)
        measure_link(&within, rank, neighbour, full);
    if (clock_node_count() > 1)
        measure_link(&between, rank, clock_leader(1), full);
    for (int node = 0; node < 2 && node < clock_node_count(); node++)
        if (rank == clock_leader(node))
            release(node, neighbour, size);
    if (rank == clock_leader(0)) {
        text_add(out, "{\"source\": \"%s\", \"within\": ", full ? "calibrate" : "init");
        link_add(out, &within);
        text_add(out, ", \"between\": ");
        link_add(out, &between);
        gamma_add(out, full);
    }
    for (int i = 0; full && i < 2; i++)
        free(buffers[i]);
}
