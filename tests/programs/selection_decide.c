/* Runs the decisions of mpiprof/core/selection/online/decide.c on given times, without MPI.
 *
 *     selection_decide INSTANCES CHANGE NOISE_PERCENT SEED TIME[:LATER[:PREDICTED[:BLOCK]]] ...
 *
 *   TIME        time of each candidate in us; the first candidate is native
 *   LATER       time from instance CHANGE on, when another rank is late; with -CHANGE, in every
 *               second period of CHANGE instances
 *   PREDICTED   if below 0, the candidate is not listed at first, and BLOCK is a block size (in KB)
 *               that probing may request
 *   BLOCK -1    an algorithm that one rank joins last. The times apply if that rank is the late
 *               rank, which arrives later than the native algorithm takes.
 *   BLOCK -2    like -1, but the rank is less late
 *   BLOCK -3    like -1, but the native time is mostly waiting for the late rank, which is late by
 *               nearly that time
 *   BLOCK -(10 + I)   a library algorithm like candidate I; PREDICTED is the time that the creation
 *               of its communicator takes
 *
 * Prints a line for each choice, the number of probes and the number of library algorithms tried.
 * At the end, prints the sum of all times divided by the sum of the native times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/operation.h"
#include "executor/library_algorithm.h"
#include "selection/online/selection.h"

enum { MEMBERS = 8, CLOCK_ERROR = 0 };

const char *const operation_names[OP_COUNT] = {OPERATION_NAMES};
static int64_t spent, lost, granted;
static int grants;

void budget_add_loss(int64_t ns)
{
    lost += ns;
}

void budget_grant(int64_t ns)
{
    granted += grants++ < 3 ? ns : 0;
}

static void print_events(struct selection *s)
{
    for (int i = 0; i < s->choice.event_count; i++) {
        const struct event *const e = &s->choice.events[i];

        if (e->what == NEWS_PHASE)
            printf("phase %d at %lld: %s\n", s->phases.number, (long long)s->instances, e->why);
        if (e->what == NEWS_CHOICE)
            printf("choice %d at %lld: %s\n", e->current, (long long)s->instances, e->why);
    }
    s->choice.event_count = 0;
}

void arrivals_next(struct arrivals *w, int length, int gap)
{
    w->next_length = length;
    w->gap = gap;
}

/* ---- other parameters */

static int64_t blocks[MOST_LIST];
static int given;

static double times[2][MOST_LIST];

static int64_t any_early(const struct context *c)
{
    (void)c;
    return 0;
}

static const struct algorithm plain[MOST_LIST], blocked, joined = {.early = any_early};
static const struct library_algorithm owns[MOST_LIST];

/* One of the library's own, predicted to take what the one that it is like is. */
static void make_own(struct selection *s, int i, int like, double price_us)
{
    struct candidate *const c = &s->list[i];

    c->variant.algorithm = NULL;
    c->variant.library_algorithm = &owns[i];
    c->similar = s->list[like].variant.algorithm;
    c->predicted_ns = s->list[like].predicted_ns;
    c->has_needs = price_us <= 0;
    if (price_us > 0)
        s->arrivals->extras[EXTRA_PRIVATE] = -(int64_t)(1e3 * price_us);
}

int candidate_changed(struct candidate *list, int *count, int which, const struct variant *wanted)
{
    if (wanted->algorithm == &joined) {
        for (int i = 1; i < *count; i++)
            if (list[i].variant.algorithm == &joined && list[i].variant.late == wanted->late)
                return i;
        times[0][*count] = times[0][which];
        times[1][*count] = times[1][which];
        list[*count].variant = *wanted;
        list[*count].predicted_ns = list[which].predicted_ns;
        return (*count)++;
    }
    for (int i = 1; i < given; i++) {
        if (blocks[i] != wanted->block_size)
            continue;
        for (; *count <= i; ++*count)
            list[*count].variant.block_size = blocks[*count];
        return i;
    }
    return 0;
}

/* ---- instances */

static uint64_t state;
static bool much_later, waits;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state % 1000000) / 1e6;
}

static int late_one(bool later)
{
    return later ? 5 : 2;
}

static int64_t score_of(int candidate, bool later, double noise)
{
    const double jitter = noise * (uniform() + uniform() + uniform() - 1.5);
    const double outlier = uniform() < 0.02 && noise > 0 ? 3 : 1;

    return (int64_t)(1e3 * times[later][candidate] * (1 + jitter) * outlier);
}

static struct sample instance(const struct candidate *list, int candidate, bool probe, bool later,
                              double noise)
{
    const struct variant *const v = &list[candidate].variant;
    const bool wrong = v->algorithm == &joined && v->late != late_one(later);
    const int64_t score = (wrong ? 4 : 1) * score_of(candidate, later, noise);

    spent += score;
    const int64_t usual = (int64_t)(1e3 * times[0][NATIVE]);

    return (struct sample){.score = score,
                           .elapsed = score,
                           .after = waits && candidate == NATIVE ? score / 8 : score,
                           .worst = waits        ? usual * 15 / 16
                                    : much_later ? 2 * usual
                                                 : score / 2,
                           .latest = late_one(later),
                           .candidate = candidate,
                           .planned = probe ? candidate : NOBODY};
}

int main(int argc, char **argv)
{
    static struct arrivals w;
    static struct selection s;
    static struct sample first[LONGEST_WINDOW], second[LONGEST_WINDOW];
    struct sample *now = first, *before = second;
    const int instances = atoi(argv[1]), change = atoi(argv[2]);
    const double noise = atof(argv[3]) / 100;
    int length = 4, position = 0, in_before = 0, probes = 0;
    double all = 0, own = 0;

    state = 88172645463325252u + (uint64_t)atoi(argv[4]) * 977;
    s = (struct selection){
        .arrivals = &w, .choice.state = STATE_OBSERVE, .listed = true, .switches = true};
    s.problem.bytes = 1 << 20;
    given = argc - 5;
    for (int i = 0; i < given; i++) {
        double predicted = 0, kilobytes = 0;
        const int n = sscanf(argv[5 + i], "%lf:%lf:%lf:%lf", &times[0][i], &times[1][i], &predicted,
                             &kilobytes);

        times[1][i] = n < 2 ? times[0][i] : times[1][i];
        blocks[i] = kilobytes > 0 ? (int64_t)(1024 * kilobytes) : 0;
        s.list[i].variant.algorithm = i == 0          ? NULL
                                      : kilobytes < 0 ? &joined
                                      : kilobytes > 0 ? &blocked
                                                      : &plain[i];
        much_later |= kilobytes == -1;
        waits |= kilobytes == -3;
        s.list[i].predicted_ns = (int64_t)(1e3 * (n < 3 ? times[0][i] : predicted));
        if (kilobytes <= -10)
            make_own(&s, i, (int)-kilobytes - 10, predicted);
        if (s.list[i].predicted_ns < 0)
            continue;
        s.list[i].variant.block_size = blocks[i];
        s.count = i + 1;
    }
    probe_start(&s);
    w.member.members = MEMBERS;
    w.results = malloc(sizeof first);
    for (int i = 0; i < instances; i++) {
        const bool noted = position >= 0;
        const bool probe = noted && s.probing.plan[position] != NOBODY;
        const int which = probe ? s.probing.plan[position] : s.choice.current;
        const bool later = change > 0 ? i >= change : i / -change % 2 == 1;
        const struct sample r = instance(s.list, which, probe, later, noise);

        all += (double)r.score;
        own += (double)score_of(NATIVE, later, noise);
        probes += probe;
        s.instances++;
        if (noted)
            now[position] = r;
        if (++position < length)
            continue;
        const bool told = in_before > 0;

        if (told) { /* the results of the window before are there */
            w.count = in_before;
            memcpy(w.results, before, sizeof first);
            w.extras[EXTRA_COST] = 1000;
            w.extras[EXTRA_WALL] = (int64_t)all;
            decide(&s);
            print_events(&s);
        } else {
            arrivals_next(&w, length, 0);
        }
        w.extras[EXTRA_BUDGET] = -(spent / 50 + granted - lost);
        if (told && probe_waits(&s) && w.gap == 0 && length + w.next_length <= LONGEST_WINDOW) {
            probe_assign(&s, length);
            length += w.next_length;
            in_before = 0;
            continue;
        }
        in_before = length;
        struct sample *const other = now;

        now = before;
        before = other;
        probe_assign(&s, 0);
        length = w.next_length;
        position = -w.gap;
    }
    int own_tried = 0;

    for (int i = 1; i < s.count; i++)
        own_tried += s.list[i].variant.library_algorithm != NULL && s.list[i].tried > 0;
    printf("probes %d of them later %d\n", probes, s.probing.later_probes);
    printf("time %.4f\n", all / own);
    printf("of the library's own %d\n", own_tried);
    for (int i = 0; i < s.count; i++)
        printf(i == 0 ? "tried %d" : " %d", s.list[i].tried);
    printf("\n");
    free(w.results);
    return 0;
}
