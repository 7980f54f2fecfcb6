/* The two sides of each message: a join of the messages that ranks sent and received.
 *
 * It has no MPI and no state. Caller: mpiprof/metrics/message_partners.py, from any thread. The
 * caller owns all arrays. Messages to one rank are joined at a time, so that the hash table of those
 * that are sent to it fits into a cache. A message may have several rows on each side. */
#include "base/base.h"

/* Columns of a table of messages. The fields have the order of message_partners.Columns. */
struct columns {
    const int32_t *communicator, *source, *tag;
    const int64_t *number;
    int64_t *partner; /* results: the last row of the other side, or -1 */
};

/* Entry of the hash table: a message's last row on each side, or -1. */
struct pair {
    int64_t sent, received;
};

static bool is_equal(const struct columns *c, int64_t a, int64_t b)
{
    return c->number[a] == c->number[b] && c->source[a] == c->source[b] && c->tag[a] == c->tag[b] &&
           c->communicator[a] == c->communicator[b];
}

/* Returns the entry of a row's message, or the empty entry where it belongs. */
static struct pair *pair_find(const struct columns *c, struct pair *table, uint64_t mask,
                              int64_t row)
{
    const uint64_t channel = hash_mix((uint64_t)c->communicator[row], (uint64_t)c->source[row]);
    const uint64_t hash =
        hash_mix(hash_mix(channel, (uint64_t)c->tag[row]), (uint64_t)c->number[row]);
    uint64_t at = hash & mask;

    while (table[at].sent >= 0 && !is_equal(c, table[at].sent, row))
        at = (at + 1) & mask;
    return &table[at];
}

/* Finds the partners of the messages to one rank.
 *
 * sent, received: rows in order. table: has room for `size` entries, a power of two and more than
 * the number of rows of `sent`. */
PUBLIC void message_match_rank(const struct columns *c, const int64_t *sent, int64_t sent_count,
                               const int64_t *received, int64_t received_count, struct pair *table,
                               int64_t size)
{
    const uint64_t mask = (uint64_t)size - 1;

    for (int64_t i = 0; i < size; i++)
        table[i] = (struct pair){-1, -1};
    for (int64_t i = 0; i < sent_count; i++)
        pair_find(c, table, mask, sent[i])->sent = sent[i];
    for (int64_t i = 0; i < received_count; i++) {
        struct pair *const pair = pair_find(c, table, mask, received[i]);

        c->partner[received[i]] = pair->sent;
        if (pair->sent >= 0)
            pair->received = received[i];
    }
    for (int64_t i = 0; i < sent_count; i++)
        c->partner[sent[i]] = pair_find(c, table, mask, sent[i])->received;
}
