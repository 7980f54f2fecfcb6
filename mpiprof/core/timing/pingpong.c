/* Measurement of the message time T(m) between two ranks, one way and both ways at once.
 *
 *      leader   command  | send ->        <- | send ->        <- |     repetition: the shortest
 *      peer     -> sleep |     -> send       |     -> send       |     exchange counts
 *
 * For exchanges both ways, the shortest would be one that the leader enters after half of the
 * peer's time has passed. So a first exchange synchronises both, and the mean of the others counts.
 *
 * If ranks share cores with other processes, most exchanges wait for a core. So a repetition is
 * clean if the leader did not lose its core; repetitions.c evaluates the clean ones. (On a machine
 * with five busy processes per core, the shortest of all exchanges differed by a factor of 60,000
 * between runs.) After a disturbed repetition both ranks sleep briefly, because a process that
 * wakes up gets a core at once. They then exchange some extra messages to warm up. A repetition of
 * large messages has fewer exchanges and warm-up messages, because it must end before the core is
 * taken. `calibrate` continues with the sizes that still lack clean repetitions.
 *
 * `calibrate` distributes its passes over some seconds, with sleep in between. The distance of the
 * processors changes (repetitions.c), and a short burst would measure only one distance.
 *
 * The number of clean repetitions and their spread are written with the times, so that a reader can
 * ignore results that are not reproducible.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "timing/timing.h"

enum {
    TAG = 19938,
    EXCHANGES = 3,
    EXCHANGES_BOTH = 5,
    WARMING = 5,
    LARGE = 65536,
    EXCHANGES_LARGE = 2,
    WARMING_LARGE = 1,
    QUICK_PASSES = 12,
    LARGEST = 1 << 22,
    QUICK = 131072
};
#define PAUSE_NS 300000
#define QUICK_NS 20000000
#define QUICK_FIRST_NS 40000000
#define FULL_NS INT64_C(12000000000)
#define LONGEST_NS INT64_C(20000000000)

struct command {
    int64_t bytes, exchanges, both, pause_ns;
};

static char *buffers[2];

static void messages_exchange(int peer, int bytes, bool both, bool first)
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

static void peer_pause(const struct command *c)
{
    const struct timespec pause = {.tv_sec = c->pause_ns / 1000000000,
                                   .tv_nsec = c->pause_ns % 1000000000};

    if (c->pause_ns > 0)
        nanosleep(&pause, NULL);
}

/* Run the leader's commands on the peer, until a command has no exchanges. */
static void peer_run(int leader)
{
    struct command c = {0};

    for (;;) {
        pmpi.Recv(&c, sizeof c, MPI_BYTE, leader, TAG, recorder.private, MPI_STATUS_IGNORE);
        if (c.exchanges == 0)
            return;
        peer_pause(&c);
        for (int64_t i = 0; i < c.exchanges; i++)
            messages_exchange(leader, (int)c.bytes, c.both != 0, false);
    }
}

static long context_switches(void)
{
    struct rusage used = {0};

    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw + used.ru_nivcsw;
}

/* Run one repetition, after a sleep if there is a pause. Returns the next pause, which is 0 after a
 * clean one. */
static int64_t leader_run_pass(struct repetitions *r, int peer, int bytes, bool both,
                               int64_t pause_ns)
{
    const int64_t small = both ? EXCHANGES_BOTH : EXCHANGES;
    const int64_t counted = bytes < LARGE ? small : EXCHANGES_LARGE;
    const int64_t warming = bytes < LARGE ? WARMING : WARMING_LARGE;
    const int64_t exchanges = pause_ns > 0 ? warming + counted : counted;
    const struct command c = {bytes, exchanges, both, pause_ns};
    int64_t best = INT64_MAX, together = 0;

    pmpi.Send(&c, sizeof c, MPI_BYTE, peer, TAG, recorder.private);
    peer_pause(&c);
    const long before = context_switches();

    for (int64_t i = 0; i < exchanges; i++) {
        const int64_t start = now_ns();

        messages_exchange(peer, bytes, both, true);
        const int64_t took = now_ns() - start;

        best = took < best ? took : best;
        if (i > exchanges - counted)
            together += took;
    }
    const bool clean = context_switches() == before;

    repetition_add(r, both ? (double)together / (double)(counted - 1) : (double)best / 2, clean);
    return clean ? 0 : PAUSE_NS;
}

static bool enough_of(const struct pingpong *p, int i)
{
    return repetitions_suffice(&p->one_way[i]) && repetitions_suffice(&p->both_ways[i]);
}

static bool measurement_suffices(const struct pingpong *p)
{
    for (int i = 0; i < p->count; i++)
        if (!enough_of(p, i))
            return false;
    return true;
}

/* Run passes over all sizes while time is left, so that a disturbance affects one pass and not one
 * size. The first pass may take longer: it opens the connections, and 1 KB alone does not show the
 * pace of a link. Later passes of `calibrate` measure only sizes without enough clean
 * repetitions. */
static void leader_run(struct pingpong *p, int peer, bool full)
{
    static const int quick[] = {0, 1024, 16384, QUICK};
    const struct command end = {0};
    const int64_t start = now_ns();
    const int wanted = full ? 23 : 4;
    int64_t pause_ns = 0;

    for (int pass = 0; full || pass < QUICK_PASSES || !measurement_suffices(p); pass++) {
        const int64_t early = full ? start + pass * (FULL_NS / MOST_ROUNDS) - now_ns() : 0;

        pause_ns = early > pause_ns ? early : pause_ns;
        for (int i = 0; i < wanted; i++) {
            const int64_t spent = now_ns() - start;
            const int64_t most = full ? FULL_NS : pass == 0 ? QUICK_FIRST_NS : QUICK_NS;
            const bool late = spent > most || pass >= MOST_ROUNDS;

            if (late && (pass > 0 || i >= 2) &&
                (!full || pass == 0 || measurement_suffices(p) || spent > LONGEST_NS))
                goto done;
            if (late && pass > 0 && enough_of(p, i))
                continue;
            p->sizes[i] = !full ? quick[i] : i == 0 ? 0 : 1 << (i - 1);
            p->count = pass == 0 ? i + 1 : p->count;
            pause_ns = leader_run_pass(&p->one_way[i], peer, p->sizes[i], false, pause_ns);
            pause_ns = leader_run_pass(&p->both_ways[i], peer, p->sizes[i], true, pause_ns);
        }
    }
done:
    pmpi.Send(&end, sizeof end, MPI_BYTE, peer, TAG, recorder.private);
}

/* Measure on the leader with the help of the peer; other ranks return at once. */
void pingpong_measure(struct pingpong *p, int rank, int leader, int peer, bool full)
{
    static char quick[2][QUICK];

    if (rank != leader && rank != peer)
        return;
    for (int i = 0; i < 2; i++)
        buffers[i] = full ? calloc(1, LARGEST) : quick[i];
    if (buffers[0] == NULL || buffers[1] == NULL)
        abort(); /* only in `calibrate`, which runs no program of the user */
    if (rank == leader)
        leader_run(p, peer, full);
    else
        peer_run(leader);
    for (int i = 0; i < 2; i++)
        if (full)
            free(buffers[i]);
        else
            memory_pages_release(buffers[i], QUICK);
}

/* ---- results */

static void numbers_add(struct text *out, const char *name, int decimals, const double *values,
                        int count)
{
    text_add(out, ", \"%s\": [", name);
    for (int i = 0; i < count; i++)
        text_add(out, "%s%.*f", i > 0 ? ", " : "", decimals, values[i]);
    text_add(out, "]");
}

static struct alpha_beta_fit fit_of(const struct pingpong *p)
{
    struct alpha_beta_fit l = {.count = p->count, .sizes = p->sizes};

    for (int i = 0; i < p->count; i++) {
        l.one_way[i] = repetition_time(&p->one_way[i]);
        l.both_ways[i] = repetition_time(&p->both_ways[i]);
    }
    alpha_beta_fit_sort(&l);
    return l;
}

struct link pingpong_link(const struct pingpong *p)
{
    const struct alpha_beta_fit l = fit_of(p);

    return alpha_beta_fit_link(&l);
}

void pingpong_write(struct text *out, const struct pingpong *p)
{
    double sizes[MOST_SIZES], clean[MOST_SIZES], spread[MOST_SIZES];

    if (p->count == 0) {
        text_add(out, "null");
        return;
    }
    for (int i = 0; i < p->count; i++) {
        sizes[i] = p->sizes[i];
        clean[i] = p->one_way[i].count[1];
        spread[i] = repetition_spread(&p->one_way[i]);
    }
    const struct alpha_beta_fit l = fit_of(p);
    const struct link k = alpha_beta_fit_link(&l);

    text_add(out, "{\"alpha_ns\": %.1f, \"beta_ns_per_byte\": %.6f, ", k.alpha, k.beta);
    text_add(out, "\"pace_ns_per_byte\": %.6f, \"buffer_bytes\": %.0f", k.pace, k.buffer);
    numbers_add(out, "sizes", 0, sizes, p->count);
    numbers_add(out, "one_way_ns", 1, l.one_way, p->count);
    numbers_add(out, "both_ways_ns", 1, l.both_ways, p->count);
    numbers_add(out, "undisturbed_rounds", 0, clean, p->count);
    numbers_add(out, "spread", 2, spread, p->count);
    text_add(out, "}");
}
