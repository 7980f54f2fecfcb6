/* Posting times of messages whose posting calls are too short to be recorded.
 *
 * mpiprof/metrics/posting_times.py describes the method. It has no MPI and no state. Caller: that
 * module, from any thread. The caller owns all arrays. */
#include <math.h>
#include <stdlib.h>

#include "python_api/activities.h"

/* Activities in groups: those of a rank that end at one call site and are calls, or intervals. */
struct groups {
    int64_t ranks, sites; /* sites: all are below, the unknown site is -1 */
    const int64_t *first_of_rank;
    int64_t *end_ns;    /* result: of each activity by group, or of a call that directly follows */
    uint8_t *precedes;  /* result: whether a short call can follow it */
    int64_t *positions; /* room for 2 * (sites + 1) numbers, which are 0 */
    int64_t *used;      /* room for as many codes */
    int64_t *rank, *is_call, *count, *first; /* result: of each group */
    int64_t *found;                          /* result: number of groups */
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
            const bool is_alone = next == all || activities[next].first == next;
            const bool is_followed = !is_alone && activities[next].is_call;
            const int64_t last = is_followed ? next : i;

            g->end_ns[at] = activities[last].end_ns;
            g->precedes[at] = last + 1 == all || activities[last + 1].first == last + 1;
        }
        for (int64_t i = 0; i < codes; i++)
            g->positions[g->used[i]] = 0;
    }
}

/* Messages of some rows of a table, and channels: (communicator, source, destination). */
struct messages {
    int64_t count, ranks, mask, clock_error_ns;
    const int64_t *row; /* of the table: */
    const int32_t *communicator, *source, *destination;
    const int64_t *number;
    const uint8_t *received, *sure;
    const int64_t *exit_ns; /* of each message: end of the call that received it */
    const int64_t *table;   /* hash table of channels: code (or -1) and index, `mask` + 1 times */
    const int64_t *sent;    /* of each channel: number of messages */
    int64_t *channel;       /* result: of each message, or -1 */
    const int64_t *first_choice; /* of each channel, and the number of choices */
    const int64_t *first;        /* of each choice: first activity of the group */
    double *early_ns; /* result: of each choice: sum of times before the ends, or INFINITY */
    const int64_t *end_ns;
    const uint8_t *precedes;
    const int64_t *chosen; /* of each channel: first activity of the chosen group, or -1 */
    int64_t *posted_ns;    /* result: of each message */
};

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

/* Finds the channels of the messages that are known to be one of those that were sent. */
PUBLIC void posting_times_number(const struct messages *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        const int64_t row = m->row[i];
        const int64_t pair = m->communicator[row] * m->ranks + m->source[row];
        const int64_t code = pair * m->ranks + m->destination[row];

        m->channel[i] = -1;
        if (m->received[row] && m->sure[row]) {
            const uint64_t at = channel_find(m->table, m->mask, code);

            if (m->table[2 * at] >= 0 && m->number[row] < m->sent[m->table[2 * at + 1]])
                m->channel[i] = m->table[2 * at + 1];
        }
    }
}

/* Adds up the times of each choice. A choice with an impossible time gets INFINITY. */
PUBLIC void posting_times_compare(const struct messages *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        const int64_t channel = m->channel[i];

        if (channel < 0)
            continue;
        for (int64_t k = m->first_choice[channel]; k < m->first_choice[channel + 1]; k++) {
            const int64_t at = m->first[k] + m->number[m->row[i]];
            const int64_t early_ns = m->exit_ns[i] - m->end_ns[at];

            if (!m->precedes[at] || early_ns < -m->clock_error_ns)
                m->early_ns[k] = (double)INFINITY;
            else
                m->early_ns[k] += (double)early_ns;
        }
    }
}

/* Sets the posting times of the messages of channels with a choice. */
PUBLIC void posting_times_set(const struct messages *m)
{
    for (int64_t i = 0; i < m->count; i++)
        if (m->channel[i] >= 0 && m->chosen[m->channel[i]] >= 0)
            m->posted_ns[i] = m->end_ns[m->chosen[m->channel[i]] + m->number[m->row[i]]];
}
