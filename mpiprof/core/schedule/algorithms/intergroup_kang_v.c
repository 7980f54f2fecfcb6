/* Allgatherv on an inter-communicator in nearly optimal time: Kang et al. 2019, Algorithm 2.
 *
 * All data of a group, in rank order, is split into as many equal shares as the other group has
 * processes (larger shares first). Each process receives its share from the ranks that have it,
 * both ways at once. Then a ring in each group collects the shares.
 *
 *      senders   |  a0  | a1 | a2 |      a3      | a4 |          a2, a3 have several receivers
 *      receivers |     b0     |     b1     |     b2     |
 *
 * A sender with several receivers sends to them in rank order. A receiver first receives from the
 * sender that continues to the next receiver, then from senders without another receiver, last from
 * the sender that began with the previous receiver. So it is never idle, and no other rank delays
 * this last sender. In the picture b1 receives from a3, then a2; b2 from a4, then a3.
 *
 * These orders are mapped to rounds: `slot` is the first round in which both sides can reach a
 * message. Slots increase along each process's sends and along its receives, and both sides compute
 * the same slots. So one send and one receive of a slot form a round, and no cycle of waits is
 * possible.
 *
 * Cost: at most (max(K_A + max k_A, K_B + max k_B)) beta, with K a group's bytes, if only one group
 * has data (Theorem 3). The theorem is wrong for both at once: messages of 3, 3, 3 and 6 bytes take
 * 13 and the bound is 12. A process enters its ring after its exchange, and sends both through one
 * port, which alone may take 1.5 times the bound. Besides, a round that sends and receives lasts as
 * long as the longer message. 7 % of random cases exceed the bound, by up to 23 %, and no setting
 * of the paper does (docs/results/papers-findings.md).
 *
 * Source: Kang et al. 2019, Section 4.1. In lines 7 and 17 the interval must begin at i ceil(K/q);
 * in line 23 b_i sends to a_k. A rank requires the counts of its local group (`needs_counts`). This
 * small allgather replaces the paper's Allreduce and Exscan, which provide less information.
 */
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/intergroup.h"

/* The data of one direction: sender i has bytes begin[i] .. begin[i + 1]. ordinal[i] is the number
 * of senders with data before i. */
struct flow {
    const int64_t *begin, *ordinal;
    int senders, receivers;
};

static struct flow outgoing(const struct context *c)
{
    return (struct flow){own_begins(c), intergroup_more(c), c->size, c->problem->remote_size};
}

static struct flow incoming(const struct context *c)
{
    return (struct flow){remote_begins(c), intergroup_more(c) + c->size, c->problem->remote_size,
                         c->size};
}

static int64_t *incoming_senders(const struct context *c)
{
    return intergroup_more(c) + c->size + c->problem->remote_size;
}

bool shares_prepare(struct context *c)
{
    if (!intergroup_prepare_more(c, c->size + 2 * (int64_t)c->problem->remote_size))
        return false;
    int64_t *const own = intergroup_more(c), *const remote = own + c->size;
    int64_t *const senders = incoming_senders(c);
    int64_t count = 0;

    for (int i = 0; i < c->size; i++) {
        own[i] = count;
        count += own_begins(c)[i + 1] > own_begins(c)[i];
    }
    count = 0;
    for (int i = 0; i < c->problem->remote_size; i++) {
        remote[i] = count;
        if (remote_begins(c)[i + 1] > remote_begins(c)[i])
            senders[count++] = i;
    }
    return true;
}

/* ---- messages */

static int64_t share_begin(const struct flow *f, int k)
{
    return part_begin(f->begin[f->senders], 1, f->receivers, k);
}

static int receiver_of(const struct flow *f, int64_t byte)
{
    return (int)part_of(f->begin[f->senders], f->receivers, byte);
}

/* Return the sender that has a byte: the last one that begins at or before it. */
static int sender_of(const struct flow *f, int64_t byte)
{
    return (int)find_last(f->begin, f->senders, byte);
}

static struct range overlap(const struct flow *f, int i, int k)
{
    const int64_t first = f->begin[i], last = f->begin[i + 1];
    const int64_t from = share_begin(f, k), to = share_begin(f, k + 1);
    const int64_t begin = first > from ? first : from, end = last < to ? last : to;

    return (struct range){begin, end > begin ? end - begin : 0};
}

static bool goes_on(const struct flow *f, int i, int k)
{
    return f->begin[i + 1] > share_begin(f, k + 1);
}

static bool began_before(const struct flow *f, int i, int k)
{
    return f->begin[i] < share_begin(f, k);
}

/* Return the round of the message from i to k, which must have data in common. */
static int64_t slot(const struct flow *f, int i, int k)
{
    const int first = sender_of(f, share_begin(f, k));
    const int last = sender_of(f, share_begin(f, k + 1) - 1);

    if (began_before(f, i, k)) {
        const int64_t sent = k - receiver_of(f, f->begin[i]);
        const int64_t others = f->ordinal[last] - f->ordinal[i];

        return goes_on(f, i, k) || sent > others ? sent : others;
    }
    if (goes_on(f, i, k))
        return 0;
    return goes_on(f, last, k) + f->ordinal[i] - f->ordinal[first] - began_before(f, first, k);
}

/* ---- rounds of the exchange */

/* Return the receiver of rank i's message in round r, or -1 for none. */
static int receiver_in(const struct flow *f, int i, int64_t r)
{
    if (f->begin[i + 1] == f->begin[i])
        return -1;
    const int first = receiver_of(f, f->begin[i]), last = receiver_of(f, f->begin[i + 1] - 1);
    const int k = r < last - first ? first + (int)r : last;

    return slot(f, i, k) == r ? k : -1;
}

/* Return the sender of the message to this rank in round r, or -1 for none. */
static int sender_in(const struct context *c, const struct flow *f, int64_t r)
{
    const int k = c->rank;

    if (share_begin(f, k + 1) == share_begin(f, k))
        return -1;
    const int first = sender_of(f, share_begin(f, k));
    const int last = sender_of(f, share_begin(f, k + 1) - 1);

    if (first == last || (began_before(f, first, k) && slot(f, first, k) == r))
        return slot(f, first, k) == r ? first : -1;
    if (goes_on(f, last, k) && r == 0)
        return last;
    const int64_t at = f->ordinal[first] + began_before(f, first, k) + r - goes_on(f, last, k);

    return at <= f->ordinal[last] - goes_on(f, last, k) ? (int)incoming_senders(c)[at] : -1;
}

static int64_t exchange_rounds(const struct context *c)
{
    const struct flow out = outgoing(c), in = incoming(c);
    int64_t rounds = 0;

    if (block_range(c, c->rank).length > 0) {
        const int last = receiver_of(&out, out.begin[c->rank + 1] - 1);

        rounds = slot(&out, c->rank, last) + 1;
    }
    if (share_begin(&in, c->rank + 1) > share_begin(&in, c->rank)) {
        const int first = sender_of(&in, share_begin(&in, c->rank));
        const int last = sender_of(&in, share_begin(&in, c->rank + 1) - 1);
        const bool ends = first == last || began_before(&in, first, c->rank);
        const int64_t latest =
            ends ? slot(&in, first, c->rank) : in.ordinal[last] - in.ordinal[first];

        rounds = latest + 1 > rounds ? latest + 1 : rounds;
    }
    return rounds;
}

static void exchange_round(const struct context *c, int64_t r, struct round *out)
{
    const struct flow to = outgoing(c), from = incoming(c);
    const int receiver = receiver_in(&to, c->rank, r), sender = sender_in(c, &from, r);

    if (sender >= 0)
        emit_remote(out, STEP_RECEIVE, sender, BUFFER_OUT, overlap(&from, sender, c->rank));
    if (receiver >= 0) {
        struct range sent = overlap(&to, c->rank, receiver);

        sent.begin -= to.begin[c->rank];
        emit_remote(out, STEP_SEND, receiver, BUFFER_IN, sent);
    }
}

/* ---- ring */

static struct range share_range(const struct context *c, int k)
{
    return parts_range(remote_total(c), 1, c->size, k, k + 1);
}

int64_t shares_rounds(const struct context *c)
{
    return exchange_rounds(c) + c->size - 1;
}

void shares_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t exchanging = exchange_rounds(c);

    if (r < exchanging)
        exchange_round(c, r, out);
    else
        ring_round(c, share_range, r - exchanging, out);
}

INTER_ALGORITHM(allgatherv, kang, .needs_counts = true,
                .cost = "max(K_A + max k_A, K_B + max k_B) beta one way, both ways at once 1.5 "
                        "times that and more, K: a group's bytes",
                .source = "Kang et al. 2019, Algorithm 2", .prepare = shares_prepare,
                .rounds = shares_rounds, .round = shares_round);
