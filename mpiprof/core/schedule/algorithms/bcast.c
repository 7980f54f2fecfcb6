/* Broadcast: all ranks get the root's message. (bcast_circulant.c contains the circulant
 * algorithm.)
 *
 * Process numbers v are relative to the root; tree.h describes the binomial tree.
 *
 *   flat_tree    the root sends to all at once             (p-1)(alpha + m beta), one round
 *   binomial     round k: v < 2^k sends to v + 2^k         ceil(lg p)(alpha + m beta)
 *   scatter_allgather_doubling, _ring
 *                scatter of p parts of the message over the tree, then allgather of the parts
 *                with v xor 2^k                            2 lg p alpha + 2 (p-1)/p m beta
 *                or from v to v+1         (ceil(lg p) + p-1) alpha + 2 (p-1)/p m beta
 *   chain        pipeline of n blocks from v to v+1        (n+p-2)(alpha + m/n beta)
 *
 * Source: Thakur, Rabenseifner and Gropp 2005, Section 5, for scatter and allgather. In the paper
 * the upper processes of the tree receive some parts again that they have already forwarded. These
 * messages are omitted here: nothing is received twice.
 */
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/tree.h"

/* ---- flat tree */

static void flat_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t m = c->problem->bytes;

    (void)r;
    if (c->rank != c->problem->root)
        emit_receive(out, c->problem->root, BUFFER_OUT, 0, m);
    else
        for (int v = 1; v < c->size; v++)
            emit_send(out, absolute_rank(c, v), BUFFER_OUT, 0, m);
}

ALGORITHM(bcast, flat_tree, .cost = "(p-1)(alpha + m beta), one round",
          .source = "Faraj et al. 2008, Section 6", .rounds = rounds_one, .round = flat_round,
          .opening = rounds_one);

/* ---- binomial */

static void binomial_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t v = relative_rank(c), bit = INT64_C(1) << r, m = c->problem->bytes;

    if (v < bit && v + bit < c->size)
        emit_send(out, absolute_rank(c, v + bit), BUFFER_OUT, 0, m);
    else if (v >= bit && v < 2 * bit)
        emit_receive(out, absolute_rank(c, v - bit), BUFFER_OUT, 0, m);
}

ALGORITHM(bcast, binomial, .cost = "ceil(lg p)(alpha + m beta)",
          .source = "Faraj et al. 2008, Section 6", .rounds = rounds_tree, .round = binomial_round,
          .opening = rounds_tree);

/* ---- scatter, then allgather; part v of the message is v's share */

static int64_t parts_of(const struct problem *p)
{
    return p->size;
}

static struct range shares(const struct context *c, int64_t first, int64_t count)
{
    return parts_range(c->problem->bytes, 1, c->size, first, first + count);
}

/* Round r of ceil(lg p): transfer the parts of the subtrees of the children v + 2^(q-1-r). */
static void scatter_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t v = relative_rank(c), bit = INT64_C(1) << (rounds_tree(c) - 1 - r);
    const int64_t child = v + bit;

    if (low_bit(c, v) == bit)
        process_message(c, STEP_RECEIVE, v - bit, shares(c, v, subtree_size(c, v)), out);
    else if (low_bit(c, v) > bit && child < c->size)
        process_message(c, STEP_SEND, child, shares(c, child, subtree_size(c, child)), out);
}

/* Round k of the doubling exchanges ranges of 2^k parts. A multiple of 2^(k+1) already has the
 * other range from the scatter. */
static void scatter_doubling_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t v = relative_rank(c);

    if (r < rounds_tree(c)) {
        scatter_round(c, r, out);
        return;
    }
    const int64_t have = INT64_C(1) << (r - rounds_tree(c));
    const int64_t first = v - v % have, peer = v ^ have, other = first ^ have;

    if (v % (2 * have) != 0)
        process_message(c, STEP_RECEIVE, peer, shares(c, other, have), out);
    if (peer % (2 * have) != 0)
        process_message(c, STEP_SEND, peer, shares(c, first, have), out);
}

ALGORITHM(bcast, scatter_allgather_doubling, .restrictions = "a power of two of processes",
          .cost = "2 lg p alpha + 2 (p-1)/p m beta",
          .source = "Thakur, Rabenseifner and Gropp 2005, Section 5",
          .applies = size_is_power_of_two, .rounds = rounds_two_trees,
          .round = scatter_doubling_round, .opening = rounds_tree, .blocks = parts_of);

static int64_t scatter_ring_rounds(const struct context *c)
{
    return rounds_tree(c) + c->size - 1;
}

/* Return true if v has part i from the scatter. */
static bool has_part(const struct context *c, int64_t v, int64_t i)
{
    return i >= v && i < v + subtree_size(c, v);
}

static void scatter_ring_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t v = relative_rank(c), before = modulo(v - 1, c->size),
                  after = modulo(v + 1, c->size);

    if (r < rounds_tree(c)) {
        scatter_round(c, r, out);
        return;
    }
    const int64_t gets = modulo(before - (r - rounds_tree(c)), c->size),
                  gives = modulo(v - (r - rounds_tree(c)), c->size);

    if (!has_part(c, v, gets))
        process_message(c, STEP_RECEIVE, before, shares(c, gets, 1), out);
    if (!has_part(c, after, gives))
        process_message(c, STEP_SEND, after, shares(c, gives, 1), out);
}

ALGORITHM(bcast, scatter_allgather_ring, .cost = "(ceil(lg p) + p-1) alpha + 2 (p-1)/p m beta",
          .source = "Thakur, Rabenseifner and Gropp 2005, Section 5", .rounds = scatter_ring_rounds,
          .round = scatter_ring_round, .opening = rounds_tree, .blocks = parts_of);

/* ---- chain: v receives block i in round v-1+i and sends it in the next one; n equal blocks */

static int64_t chain_blocks(const struct problem *p)
{
    return blocks_of(p->bytes, pipeline_block(p, p->bytes, p->size - 2, p->bytes));
}

static int64_t chain_rounds(const struct context *c)
{
    return c->size > 1 ? chain_blocks(c->problem) + c->size - 2 : 0;
}

static void chain_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t v = relative_rank(c), n = chain_blocks(c->problem);
    const int64_t gets = r - (v - 1), gives = r - v;

    if (v > 0 && gets >= 0 && gets < n)
        process_message(c, STEP_RECEIVE, v - 1, message_block(c, n, gets), out);
    if (v < c->size - 1 && gives >= 0 && gives < n)
        process_message(c, STEP_SEND, v + 1, message_block(c, n, gives), out);
}

ALGORITHM(bcast, chain, .cost = "(n+p-2)(alpha + m/n beta), n blocks",
          .parameters = "block_size=BYTES", .source = "Traeff et al. 2009, Section 2.2",
          .rounds = chain_rounds, .round = chain_round, .opening = chain_rounds,
          .blocks = chain_blocks);
