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
 * Between nodes, `calibrate` begins every repetition one way with idle ports. A port that limits
 * its rate sends its first bytes at once after an idle time, and the next bytes at the link's rate.
 * On emulated ports of 100 Mbit/s, 4 KB took 0.03 ms or 0.17 ms, depending on the messages before.
 * So both ranks sleep before each repetition, and the warm-up messages are empty. Receives may
 * block there, so that only involuntary context switches count as disturbances.
 *
 * A size gets an equal share of the time, but at least a few repetitions. On a slow link, the
 * largest sizes would otherwise leave 3 repetitions to all sizes. They are omitted, because their
 * times follow from the link's rate.
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
    SHORT = 1024,
    EXCHANGES_SHORT = 10, /* fit into the first bytes of an idle port */
    WARMING_LARGE = 1,
    QUICK_PASSES = 12,
    LARGEST = 1 << 22,
    QUICK = 131072,
    FULL_SIZES = 23, /* 0 and the powers of two to LARGEST */
    QUICK_SIZES = 4,
    FEWEST_PASSES = 5 /* of `calibrate`, for each size */
};
#define PAUSE_NS 300000
#define QUICK_NS 20000000
#define QUICK_FIRST_NS 40000000
#define FULL_NS INT64_C(12000000000)
#define LONGEST_NS INT64_C(20000000000)
/* An idle port of the emulated cluster saves up to 64 KB, for which 100 Mbit/s take 5 ms. */
#define IDLE_NS INT64_C(5000000)
#define SHARE_NS (FULL_NS / FULL_SIZES)
#define LONGEST_REPETITION_NS (FULL_NS / 40) /* of a size, one way and both ways */

struct command {
    int64_t bytes, exchanges, both, pause_ns;
    int64_t warming; /* empty messages before the exchanges */
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
        for (int64_t i = 0; i < c.warming; i++)
            messages_exchange(leader, 0, false, false);
        for (int64_t i = 0; i < c.exchanges; i++)
            messages_exchange(leader, (int)c.bytes, c.both != 0, false);
    }
}

/* Return how often this thread has lost its core. `blocking`: receives may give it up. */
static long context_switches(bool blocking)
{
    struct rusage used = {0};

    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw + (blocking ? 0 : used.ru_nvcsw);
}

static int64_t exchanges_of(int bytes, bool both, bool idle)
{
    if (bytes >= LARGE)
        return EXCHANGES_LARGE;
    return both ? EXCHANGES_BOTH : idle && bytes <= SHORT ? EXCHANGES_SHORT : EXCHANGES;
}

/* Return the command of a repetition that begins after a pause, with warm-up messages if there is
 * one. They are empty if the repetition requires idle ports. */
static struct command command_of(int bytes, bool both, bool idle, int64_t pause_ns)
{
    const int64_t warming = pause_ns == 0 ? 0 : bytes < LARGE ? WARMING : WARMING_LARGE;
    const int64_t counted = exchanges_of(bytes, both, idle);

    if (idle)
        return (struct command){bytes, counted, both, pause_ns, WARMING};
    return (struct command){bytes, warming + counted, both, pause_ns, 0};
}

/* Run one repetition, after a sleep if there is a pause. `blocking`: receives may give up the core.
 * Returns the next pause, which is 0 after a clean repetition. */
static int64_t leader_run_pass(struct repetitions *r, int peer, const struct command *c,
                               int64_t counted, bool blocking)
{
    int64_t best = INT64_MAX, together = 0;

    pmpi.Send(c, sizeof *c, MPI_BYTE, peer, TAG, recorder.private);
    peer_pause(c);
    for (int64_t i = 0; i < c->warming; i++)
        messages_exchange(peer, 0, false, true);
    const long before = context_switches(blocking);

    for (int64_t i = 0; i < c->exchanges; i++) {
        const int64_t start = now_ns();

        messages_exchange(peer, (int)c->bytes, c->both != 0, true);
        const int64_t took = now_ns() - start;

        best = took < best ? took : best;
        if (i > c->exchanges - counted)
            together += took;
    }
    const bool clean = context_switches(blocking) == before;

    repetition_add(r, c->both ? (double)together / (double)(counted - 1) : (double)best / 2, clean);
    return clean ? 0 : PAUSE_NS;
}

/* Run one repetition one way and one both ways, and return the next pause. Both ways show the
 * link's rate, so they do not require idle ports. */
static int64_t leader_run_size(struct pingpong *p, int i, int peer, bool between, int64_t pause_ns)
{
    struct repetitions *const kinds[] = {&p->one_way[i], &p->both_ways[i]};
    const int64_t start = now_ns();

    for (int both = 0; both < 2; both++) {
        const bool idle = between && !both;
        const int64_t pause = idle && pause_ns < IDLE_NS ? IDLE_NS : pause_ns;
        const struct command c = command_of(p->sizes[i], both != 0, idle, pause);
        const int64_t counted = exchanges_of(p->sizes[i], both != 0, idle);

        pause_ns = leader_run_pass(kinds[both], peer, &c, counted, between);
    }
    p->spent_ns[i] += now_ns() - start;
    return pause_ns;
}

/* Return true if another repetition exceeds the size's share of the time. */
static bool size_exceeds_share(const struct pingpong *p, int i)
{
    const int passes = p->one_way[i].count[0] + p->one_way[i].count[1];

    return passes >= FEWEST_PASSES && p->spent_ns[i] / passes * (passes + 1) > SHARE_NS;
}

static bool enough_of(const struct pingpong *p, int i)
{
    return size_exceeds_share(p, i) ||
           (repetitions_suffice(&p->one_way[i]) && repetitions_suffice(&p->both_ways[i]));
}

static bool measurement_suffices(const struct pingpong *p)
{
    for (int i = 0; i < p->count; i++)
        if (!enough_of(p, i))
            return false;
    return true;
}

/* Run the first pass over the sizes, and return the next pause. It opens the connections, so it may
 * take longer, and 1 KB alone does not show the pace of a link. */
static int64_t leader_run_first_pass(struct pingpong *p, int peer, bool full, bool between)
{
    static const int quick[] = {0, 1024, 16384, QUICK};
    const int64_t start = now_ns();
    const int wanted = full ? FULL_SIZES : QUICK_SIZES;
    int64_t pause_ns = 0;

    for (int i = 0; i < wanted; i++) {
        if (!full && i >= 2 && now_ns() - start > QUICK_FIRST_NS)
            break;
        p->sizes[i] = !full ? quick[i] : i == 0 ? 0 : 1 << (i - 1);
        p->count = i + 1;
        pause_ns = leader_run_size(p, i, peer, between, pause_ns);
        if (full && i >= 2 && p->spent_ns[i] > LONGEST_REPETITION_NS)
            break;
    }
    return pause_ns;
}

/* Run passes over all sizes while time is left, so that a disturbance affects one pass and not one
 * size. Later passes of `calibrate` measure only sizes without enough clean repetitions. */
static void leader_run(struct pingpong *p, int peer, bool full, bool between)
{
    const struct command end = {0};
    const int64_t start = now_ns();
    int64_t pause_ns = leader_run_first_pass(p, peer, full, between);

    for (int pass = 1; full || pass < QUICK_PASSES || !measurement_suffices(p); pass++) {
        const int64_t early = full ? start + pass * (FULL_NS / MOST_ROUNDS) - now_ns() : 0;

        pause_ns = early > pause_ns ? early : pause_ns;
        for (int i = 0; i < p->count; i++) {
            const int64_t spent = now_ns() - start;
            const bool late = spent > (full ? FULL_NS : QUICK_NS) || pass >= MOST_ROUNDS;

            if (late && (!full || measurement_suffices(p) || spent > LONGEST_NS))
                goto done;
            if (full && (late ? enough_of(p, i) : size_exceeds_share(p, i)))
                continue;
            pause_ns = leader_run_size(p, i, peer, between, pause_ns);
        }
    }
done:
    pmpi.Send(&end, sizeof end, MPI_BYTE, peer, TAG, recorder.private);
}

/* Measure on the leader with the help of the peer; other ranks return at once. `between`: the two
 * are on different nodes. */
void pingpong_measure(struct pingpong *p, int rank, int leader, int peer, bool full, bool between)
{
    static SPARSE char quick[2][QUICK];

    if (rank != leader && rank != peer)
        return;
    for (int i = 0; i < 2; i++)
        buffers[i] = full ? calloc(1, LARGEST) : quick[i];
    if (buffers[0] == NULL || buffers[1] == NULL)
        abort(); /* only in `calibrate`, which runs no program of the user */
    if (rank == leader)
        leader_run(p, peer, full, full && between);
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
    double values[MOST_SIZES];

    if (p->count == 0) {
        text_add(out, "null");
        return;
    }
    const struct alpha_beta_fit l = fit_of(p);
    const struct link k = alpha_beta_fit_link(&l);

    text_add(out, "{\"alpha_ns\": %.1f, \"beta_ns_per_byte\": %.6f, ", k.alpha, k.beta);
    text_add(out, "\"pace_ns_per_byte\": %.6f, \"buffer_bytes\": %.0f", k.pace, k.buffer);
    for (int i = 0; i < p->count; i++)
        values[i] = p->sizes[i];
    numbers_add(out, "sizes", 0, values, p->count);
    numbers_add(out, "one_way_ns", 1, l.one_way, p->count);
    numbers_add(out, "both_ways_ns", 1, l.both_ways, p->count);
    for (int i = 0; i < p->count; i++)
        values[i] = p->one_way[i].count[1];
    numbers_add(out, "undisturbed_rounds", 0, values, p->count);
    for (int i = 0; i < p->count; i++)
        values[i] = repetition_spread(&p->one_way[i]);
    numbers_add(out, "spread", 2, values, p->count);
    text_add(out, "}");
}
