/* The two sides of each message: a join of the messages that ranks sent and received.
 *
 * It has no MPI and no state. Caller: mpiprof/account/message_tables.py, from any thread. The
 * caller owns all arrays. Messages to one rank are joined at a time, so that the hash table of those
 * that are sent to it fits into a cache. A message may have several rows on each side. */
#include "python_api/messages.h"

/* Entry of the hash table: a message's last row on each side, or NO_MESSAGE. */
struct row_pair {
    int64_t sent, received;
};

/* Returns the rank that receives a message, or UNKNOWN_PEER if the message cannot be identified.
 *
 * is_local: of each communicator, whether the numbers of its messages are local to a rank. */
static int32_t receiver(const struct message_table *t, const uint8_t *is_local,
                        const struct message *m)
{
    const int32_t communicator = t->communicators[m->shape];
    const int32_t rank = message_destination(t, m);

    if (!message_is_sure(t, m) || communicator < 0 || is_local[communicator] || rank >= t->ranks)
        return UNKNOWN_PEER;
    return rank;
}

/* Groups the messages of both sides by the rank that receives them, in order.
 *
 * first: of each side, sent and then received: the first of each rank in `rows`, and the end. If a
 * side is empty, `rows` is not set. next: room for each rank of each side: 0. */
PUBLIC void message_match_group(const struct message_table *t, const uint8_t *is_local,
                                int64_t *first, int64_t *next, int32_t *rows)
{
    int64_t *const firsts[2] = {first, first + t->ranks + 1};
    int64_t *const nexts[2] = {next, next + t->ranks};
    int64_t count = 0;

    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];
        const int32_t rank = receiver(t, is_local, m);

        if (rank >= 0)
            nexts[message_is_received(m)][rank]++;
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t rank = 0; rank < t->ranks; rank++) {
            const int64_t of_rank = nexts[side][rank];

            firsts[side][rank] = nexts[side][rank] = count;
            count += of_rank;
        }
        firsts[side][t->ranks] = count;
    }
    if (firsts[0][0] == firsts[0][t->ranks] || firsts[1][0] == firsts[1][t->ranks])
        return;
    for (int64_t row = 0; row < t->count; row++) {
        const struct message *const m = &t->messages[row];
        const int32_t rank = receiver(t, is_local, m);

        if (rank >= 0)
            rows[nexts[message_is_received(m)][rank]++] = (int32_t)row;
    }
}

static bool is_equal(const struct message_table *t, int64_t a, int64_t b)
{
    const struct message *const first = &t->messages[a], *const second = &t->messages[b];

    return first->number == second->number && first->tag == second->tag &&
           message_source(t, first) == message_source(t, second) &&
           t->communicators[first->shape] == t->communicators[second->shape];
}

/* Returns the entry of a row's message, or the empty entry where it belongs. */
static struct row_pair *pair_find(const struct message_table *t, struct row_pair *table,
                                  uint64_t mask, int64_t row)
{
    const struct message *const m = &t->messages[row];
    const uint64_t channel =
        hash_mix((uint64_t)t->communicators[m->shape], (uint64_t)message_source(t, m));
    const uint64_t hash = hash_mix(hash_mix(channel, (uint64_t)m->tag), (uint64_t)m->number);
    uint64_t at = hash & mask;

    while (table[at].sent >= 0 && !is_equal(t, table[at].sent, row))
        at = (at + 1) & mask;
    return &table[at];
}

/* Finds the partners of the messages to one rank.
 *
 * sent, received: rows in order. table: has room for `size` entries, a power of two and more than
 * the number of rows of `sent`. */
PUBLIC void message_match_rank(const struct message_table *t, const int32_t *sent,
                               int64_t sent_count, const int32_t *received, int64_t received_count,
                               struct row_pair *table, int64_t size)
{
    const uint64_t mask = (uint64_t)size - 1;

    for (int64_t i = 0; i < size; i++)
        table[i] = (struct row_pair){NO_MESSAGE, NO_MESSAGE};
    for (int64_t i = 0; i < sent_count; i++)
        pair_find(t, table, mask, sent[i])->sent = sent[i];
    for (int64_t i = 0; i < received_count; i++) {
        struct row_pair *const pair = pair_find(t, table, mask, received[i]);

        t->messages[received[i]].partner = (int32_t)pair->sent;
        if (pair->sent >= 0)
            pair->received = received[i];
    }
    for (int64_t i = 0; i < sent_count; i++)
        t->messages[sent[i]].partner = (int32_t)pair_find(t, table, mask, sent[i])->received;
}

/* Copies the sizes of messages from their senders to receivers that do not know them. */
PUBLIC void message_match_sizes(const struct message_table *t)
{
    for (int64_t row = 0; row < t->count; row++) {
        struct message *const m = &t->messages[row];

        if (message_is_received(m) && m->bytes < 0 && m->partner >= 0)
            m->bytes = t->messages[m->partner].bytes;
    }
}
