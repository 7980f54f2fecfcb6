/* Posting times of messages whose posting calls are too short to be recorded.
 *
 * mpiprof/metrics/posting_times.py describes the method. It has no MPI and no state. Caller: that
 * module, from any thread. The caller owns all arrays. */
#include <math.h>
#include <stdlib.h>

#include "python_api/activities.h"
#include "python_api/postings.h"

/* Activities in groups: those of a rank that end at one call site and are calls, or intervals. */
struct groups {
    int64_t ranks, sites; /* sites: all are below, the unknown site is -1 */
    const int64_t *first_of_rank;
    int64_t *end_ns;    /* result: of each activity by group, or of a call that directly follows */
    uint8_t *precedes;  /* result: whether a short call can follow it */
    int64_t *positions; /* room for 2 * (sites + 1) numbers, which are 0 */
    int64_t *used;      /* room for as many codes */
    int64_t *rank, *is_call, *site, *count, *first; /* result: of each group */
    int64_t *found;                                 /* result: number of groups */
};

static int64_t code_of(const struct groups *g, const struct activity *a)
{
    return (a->is_call != 0) * (g->sites + 1) + a->last_site + 1;
}

static int compare(const void *a, const void *b)
{
    const int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;

    return (first > second) - (first < second);
}

/* Adds the groups of a rank's activities from `begin` on. */
static void add_groups(struct groups *g, int64_t rank, int64_t begin, int64_t codes)
{
    qsort(g->used, (size_t)codes, sizeof *g->used, compare);
    for (int64_t i = 0; i < codes; i++) {
        const int64_t code = g->used[i], group = (*g->found)++;

        g->rank[group] = rank;
        g->is_call[group] = code > g->sites;
        g->site[group] = code % (g->sites + 1) - 1;
        g->count[group] = g->positions[code];
        g->first[group] = begin;
        g->positions[code] = begin;
        begin += g->count[group];
    }
}

/* Groups the activities of all ranks. Those of a group are in order of time. */
PUBLIC void posting_times_group(const struct activity *activities, struct groups *g)
{
    const int64_t all = g->first_of_rank[g->ranks];

    for (int64_t rank = 0; rank < g->ranks; rank++) {
        const int64_t begin = g->first_of_rank[rank], end = g->first_of_rank[rank + 1];
        int64_t codes = 0;

        for (int64_t i = begin; i < end; i++) {
            const int64_t code = code_of(g, &activities[i]);

            if (g->positions[code]++ == 0)
                g->used[codes++] = code;
        }
        add_groups(g, rank, begin, codes);
        for (int64_t i = begin; i < end; i++) {
            const int64_t at = g->positions[code_of(g, &activities[i])]++, next = i + 1;
            const bool is_alone = next == all || activities[next].before == 0;
            const bool is_followed = !is_alone && activities[next].is_call;
            const int64_t last = is_followed ? next : i;

            g->end_ns[at] = activities[last].end_ns;
            g->precedes[at] = last + 1 == all || activities[last + 1].before == 0;
        }
        for (int64_t i = 0; i < codes; i++)
            g->positions[g->used[i]] = 0;
    }
}

/* Channels of messages: (communicator, source, destination), and the groups of activities that may
 * precede their sends. The fields have the order of posting_times.CHANNELS.
 *
 * A window of a run has a part of each group: activities `low` to before `high`. */
struct channels {
    int64_t mask, begin_ns; /* begin_ns: of the window */
    const int64_t *table;   /* hash table of channels: code (or -1) and index, mask + 1 times */
    const int64_t *sent;    /* of each channel: number of messages */
    const int64_t *first_choice; /* of each channel, and the number of choices */
    const int64_t *first;        /* of each choice: where the first activity of the run would be */
    const int64_t *low, *high;   /* of each choice: activities of the window */
    double *early_ns;      /* result: of each choice: sum of times before the ends, or INFINITY */
    const int64_t *end_ns; /* of the activities by group, as `precedes` */
    const uint8_t *precedes;
    const int64_t *chosen; /* of each channel: choice, or -1 */
    int64_t *tag;          /* room for each channel, INT64_MIN */
    int32_t *channel;      /* result: of each message, or -1 */
};

#define NO_TAG INT64_MIN /* tags have 32 bits */
#define SEVERAL_TAGS INT64_MAX

/* Returns the position of a channel's code in a hash table, or the empty one where it belongs. */
static uint64_t channel_find(const int64_t *table, int64_t mask, int64_t code)
{
    uint64_t at = hash_mix(0, (uint64_t)code) & (uint64_t)mask;

    while (table[2 * at] >= 0 && table[2 * at] != code)
        at = (at + 1) & (uint64_t)mask;
    return at;
}

/* Fills a hash table with the codes of channels. It has mask + 1 elements, more than the codes. */
PUBLIC void posting_times_index(int64_t *table, int64_t mask, const int64_t *codes, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t at = channel_find(table, mask, codes[i]);

        table[2 * at] = codes[i];
        table[2 * at + 1] = i;
    }
}

/* Finds the channels of messages that are known to be one of those that were sent.
 *
 * The number of a message counts those with its tag, so channels with several tags are excluded. */
PUBLIC void posting_times_number(const struct message_table *t, const struct postings *p,
                                 const struct channels *c)
{
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];

        c->channel[row] = -1;
        if (p->state[row] == MESSAGE_UNKNOWN && message_is_received(m) && message_is_sure(t, m)) {
            const int64_t pair = t->communicators[m->shape] * t->ranks + message_source(t, m);
            const int64_t code = pair * t->ranks + message_destination(t, m);
            const int64_t *const found = &c->table[2 * channel_find(c->table, c->mask, code)];

            if (found[0] < 0 || m->number >= c->sent[found[1]])
                continue;
            c->channel[row] = (int32_t)found[1];
            if (c->tag[found[1]] == NO_TAG)
                c->tag[found[1]] = m->tag;
            else if (c->tag[found[1]] != m->tag)
                c->tag[found[1]] = SEVERAL_TAGS;
        }
    }
    for (int64_t row = 0; row < t->count; row++)
        if (c->channel[row] >= 0 && c->tag[c->channel[row]] == SEVERAL_TAGS)
            c->channel[row] = -1;
}

/* Adds the time from the end of an activity to that of the call that receives. */
static void compare_times(const struct postings *p, const struct channels *c, int64_t choice,
                          int64_t activity, int64_t received_ns)
{
    const int64_t early_ns = received_ns - c->end_ns[activity];

    if (!c->precedes[activity] || early_ns < -p->clock_error_ns)
        c->early_ns[choice] = (double)INFINITY;
    else
        c->early_ns[choice] += (double)early_ns;
}

/* Adds up the times of each choice. A choice with an impossible time gets INFINITY. */
PUBLIC void posting_times_compare(const struct message_table *t, const struct postings *p,
                                  const struct channels *c)
{
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];
        const int32_t channel = c->channel[row];

        if (channel < 0)
            continue;
        for (int64_t k = c->first_choice[channel]; k < c->first_choice[channel + 1]; k++) {
            const int64_t at = c->first[k] + m->number;

            if (at >= c->low[k] && at < c->high[k])
                compare_times(p, c, k, at, t->exit_ns[m->call]);
        }
    }
}

/* Sets the posting times of the messages of channels with a choice.
 *
 * A message of an earlier window counts as posted at the begin of this one. */
PUBLIC void posting_times_set(const struct message_table *t, const struct postings *p,
                              const struct channels *c)
{
    for (int64_t row = 0; row < t->count; row++) {
        const int64_t choice = c->channel[row] >= 0 ? c->chosen[c->channel[row]] : -1;

        if (choice >= 0) {
            const int64_t at = c->first[choice] + t->messages[row].number;

            if (at < c->high[choice])
                p->posted_ns[row] = at < c->low[choice] ? c->begin_ns : c->end_ns[at];
        }
    }
}
