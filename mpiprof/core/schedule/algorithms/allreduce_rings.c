/* Allreduce as a reduce-scatter and an allgather of blocks, for any number of processes.
 *
 *   ring       pairwise: in round i each rank sends a block to rank+i for its result; then the
 *              results travel around the ring      2(p-1) alpha + (1 - 1/p)(2 n beta + n gamma)
 *              Source: Rabenseifner and Adamidis 2004, Section 3.7. Preserves the order of
 *              operands.
 *
 *   circulant  The skips s are p, halved and rounded up, down to 1. SCRATCH contains the rotated
 *              vector, so that slot i is the block of rank + i. Round from s' slots to
 *              s = ceil(s'/2):
 *
 *                  slots  0 .. s'-s-1 | .. | s .. s'-1  -->  rank + s, its slots 0 .. s'-s-1
 *                         + data from rank - s
 *
 *              At the end slot 0 is complete; the same rounds backwards share the results.
 *                                         2 ceil(lg p) alpha + (1 - 1/p)(2 n beta + n gamma)
 *              Source: Traeff 2024 (arXiv 2410.14234). Operands are combined in rotated order, so
 *              the operation must be commutative.
 */
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/reductions.h"

/* ---- ring */

static int64_t pairwise_scratch(const struct problem *p)
{
    return 3 * equal_largest(p);
}

ALGORITHM(allreduce, ring, RING);

/* ---- circulant */

/* Return the begin of slot i, 0 <= i <= p. */
static int64_t slot_begin(const struct context *c, int64_t i)
{
    const int64_t own = equal_block(c, c->rank).begin, block = c->rank + i;
    const int64_t begin = equal_block(c, modulo(block, c->size)).begin;

    return begin - own + (block >= c->size ? c->problem->bytes : 0);
}

static struct range slots(const struct context *c, int64_t first, int64_t last)
{
    const int64_t begin = slot_begin(c, first);

    return (struct range){begin, slot_begin(c, last) - begin};
}

/* Return the number of slots in use before halving k: p, ceil(p/2), ..., 1. */
static int64_t skip(const struct context *c, int64_t k)
{
    return (c->size + (INT64_C(1) << k) - 1) >> k;
}

static void blocks_rotate(const struct context *c, bool back, struct round *out)
{
    const int64_t own = equal_block(c, c->rank).begin, rest = c->problem->bytes - own;

    if (back) {
        emit_copy(out, BUFFER_OUT, own, BUFFER_SCRATCH, 0, rest);
        emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, rest, own);
    } else {
        emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, own, rest);
        emit_copy(out, BUFFER_SCRATCH, rest, BUFFER_IN, 0, own);
    }
}

/* Send the upper slots and reduce the lower ones, or return the upper slots and share the lower
 * ones. */
static void circulant_exchange(const struct context *c, int64_t k, bool reducing, struct round *out)
{
    const int64_t all = skip(c, k), s = skip(c, k + 1);
    const struct range lower = slots(c, 0, all - s), upper = slots(c, s, all);
    const int before = modulo(c->rank - s, c->size), after = modulo(c->rank + s, c->size);

    if (reducing) {
        emit_message(out, STEP_RECEIVE, before, BUFFER_OUT, lower);
        emit_message(out, STEP_SEND, after, BUFFER_SCRATCH, upper);
    } else {
        emit_message(out, STEP_RECEIVE, after, BUFFER_SCRATCH, upper);
        emit_message(out, STEP_SEND, before, BUFFER_SCRATCH, lower);
    }
}

/* OUT receives data until the result is rotated back into it. */
static void circulant_round(const struct context *c, int64_t r, struct round *out)
{
    const int halvings = log2_ceiling(c->size);

    if (r == 0)
        blocks_rotate(c, false, out);
    else if (r <= halvings)
        emit_reduce(out, BUFFER_SCRATCH, 0, BUFFER_OUT, 0,
                    slot_begin(c, skip(c, r - 1) - skip(c, r)), false);
    if (r == 2 * halvings)
        blocks_rotate(c, true, out);
    else if (r < halvings)
        circulant_exchange(c, r, true, out);
    else
        circulant_exchange(c, 2 * halvings - 1 - r, false, out);
}

ALGORITHM(allreduce, circulant, .restrictions = "a commutative operation",
          .cost = "2 ceil(lg p) alpha + (1 - 1/p)(2 n beta + n gamma)",
          .source = "Traeff 2024, arXiv 2410.14234", .rounds = rounds_two_trees_and_one,
          .scratch = scratch_whole, .round = circulant_round);
