/* Allgather: all ranks get the blocks of all ranks. For allgatherv also the ring: linear_ring.
 *
 * Source: Chan et al. 2007; Bruck et al. 1997; Chen et al. 2005 (neighbour exchange).
 *
 *   ring                round r: forward the last block         (p-1)(alpha + m beta)
 *   (linear_ring)       to rank+1                               (p-1)(alpha + max m_i beta)
 *   recursive_doubling  round k: exchange all known blocks      lg p alpha + (p-1) m beta
 *                       with rank xor 2^k; only for powers of
 *                       two, otherwise bruck has as few rounds
 *   bruck               round k: send the first 2^k blocks to   ceil(lg p) alpha + (p-1) m beta
 *                       rank-2^k, receive from rank+2^k
 *   neighbour_exchange  exchange with the two neighbours        (p/2) alpha + (p-1) m beta
 *                       alternately the two blocks that the
 *                       other one sent; even p only
 *
 * All blocks are received in their final position, except in bruck. It collects them in SCRATCH
 * starting with this rank's block, and rotates them at the end.
 */
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"

static void own_block(const struct context *c, struct round *out)
{
    const struct range own = block_range(c, c->rank);

    emit_copy(out, BUFFER_OUT, own.begin, BUFFER_IN, 0, own.length);
}

/* ---- ring */

static void blocks_ring_round(const struct context *c, int64_t r, struct round *out)
{
    if (r == 0)
        own_block(c, out);
    ring_round(c, block_range, r, out);
}

ALGORITHM(allgather, ring, .cost = "(p-1)(alpha + m beta)",
          .source = "Traeff et al. 2009, Section 2.1", .rounds = rounds_ring,
          .round = blocks_ring_round);

ALGORITHM(allgatherv, linear_ring, .cost = "(p-1)(alpha + max m_i beta)",
          .source = "Traeff et al. 2009, Section 2.1", .prepare = begins_prepare,
          .rounds = rounds_ring, .round = blocks_ring_round);

/* ---- recursive doubling */

static int64_t doubling_rounds(const struct context *c)
{
    return c->size > 1 ? log2_floor(c->size) : 1;
}

static void doubling_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t m = c->problem->bytes, have = INT64_C(1) << r;
    const int64_t first = c->rank - c->rank % have, other = first ^ have;
    const int peer = c->rank ^ (int)have;

    if (r == 0)
        own_block(c, out);
    if (c->size == 1)
        return;
    emit_receive(out, peer, BUFFER_OUT, other * m, have * m);
    emit_send(out, peer, BUFFER_OUT, first * m, have * m);
}

ALGORITHM(allgather, recursive_doubling, .restrictions = "a power of two of processes",
          .cost = "lg p alpha + (p-1) m beta",
          .source = "Thakur, Rabenseifner and Gropp 2005, Section 4",
          .applies = size_is_power_of_two, .rounds = doubling_rounds, .round = doubling_round);

/* ---- bruck: slot i of SCRATCH is the block of rank + i; the last round rotates the slots */

static int64_t bruck_scratch(const struct problem *p)
{
    return p->size > 1 ? p->size * p->bytes : 0;
}

static void bruck_last(const struct context *c, struct round *out)
{
    const int64_t m = c->problem->bytes, before = c->size - c->rank;

    /* Copy this rank's block separately: in place it is already in its position. */
    own_block(c, out);
    if (c->size == 1)
        return;
    emit_copy(out, BUFFER_OUT, (c->rank + 1) * m, BUFFER_SCRATCH, m, (before - 1) * m);
    emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, before * m, c->rank * m);
}

static void bruck_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t m = c->problem->bytes, have = INT64_C(1) << r;
    const int64_t more = have < c->size - have ? have : c->size - have;

    if (r == rounds_tree(c)) {
        bruck_last(c, out);
        return;
    }
    if (r == 0)
        emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, 0, m);
    emit_receive(out, modulo(c->rank + have, c->size), BUFFER_SCRATCH, have * m, more * m);
    emit_send(out, modulo(c->rank - have, c->size), BUFFER_SCRATCH, 0, more * m);
}

ALGORITHM(allgather, bruck, .cost = "ceil(lg p) alpha + (p-1) m beta",
          .source = "Bruck et al. 1997", .rounds = rounds_tree_and_one, .scratch = bruck_scratch,
          .round = bruck_round);

/* ---- neighbour exchange
 *
 * Ranks 2P and 2P+1 are pair P and exchange their blocks in round 0. Later rounds transfer whole
 * pairs: odd rounds between pairs, even rounds within pairs. The even rank of P receives P-1, P+1,
 * P-2, P+2 ..., the odd rank P+1, P-1, P+2, P-2 .... Each rank forwards the pair of the previous
 * round to its neighbour; in round 1 it sends its own pair.
 */

static bool size_is_even(const struct problem *p)
{
    return p->size % 2 == 0;
}

static int64_t neighbour_rounds(const struct context *c)
{
    return c->size / 2;
}

/* Return the pair that a rank receives in round r > 0. */
static int64_t neighbour_pair(const struct context *c, int64_t rank, int64_t r)
{
    const int64_t upwards = (rank + r) % 2 == 0 ? (r + 1) / 2 : -((r + 1) / 2);

    return modulo(rank / 2 + upwards, c->size / 2);
}

static void neighbour_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t m = c->problem->bytes;
    const int peer = modulo((c->rank + r) % 2 == 0 ? c->rank + 1 : c->rank - 1, c->size);

    if (r == 0) {
        own_block(c, out);
        emit_receive(out, peer, BUFFER_OUT, peer * m, m);
        emit_send(out, peer, BUFFER_OUT, c->rank * m, m);
        return;
    }
    const int64_t sent_pair = r == 1 ? c->rank / 2 : neighbour_pair(c, c->rank, r - 1);

    emit_receive(out, peer, BUFFER_OUT, 2 * neighbour_pair(c, c->rank, r) * m, 2 * m);
    emit_send(out, peer, BUFFER_OUT, 2 * sent_pair * m, 2 * m);
}

ALGORITHM(allgather, neighbour_exchange, .restrictions = "an even number of processes",
          .cost = "(p/2) alpha + (p-1) m beta", .source = "Chen et al. 2005",
          .applies = size_is_even, .rounds = neighbour_rounds, .round = neighbour_round);
