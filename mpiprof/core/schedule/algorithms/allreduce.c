/* Allreduce: the vectors of all ranks are combined, and all ranks get the result.
 *
 * Source: Rabenseifner and Adamidis 2004, Section 3. n: bytes of the vector, p' = 2^floor(lg p).
 *
 *   binary_tree         reduce to rank 0 by joining runs of 2^k ranks, then return the same way
 *   recursive_doubling  step k: exchange the whole vector with rank xor 2^k; both reduce it
 *   halving_doubling    exchange halves of the vector at distance 1, quarters at distance 2, ...;
 *                       then return, which collects the parts
 *   binary_blocks       see reduce.c; on the way back each rank of a block receives its part of the
 *                       result from two ranks of the next larger block as soon as they have it
 *   ring, circulant     see allreduce_rings.c
 *
 * If p is not a power of two, recursive_doubling and halving_doubling first remove one rank of each
 * pair of the first 2(p-p') ranks. A removed rank receives the result from its partner at the end.
 * These algorithms preserve the order of operands, so any operation is allowed. The two operands of
 * each step are equal on both sides, so all ranks compute identical bits.
 */
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/reductions.h"

/* ---- binary_tree */

ALGORITHM(allreduce, binary_tree, BINARY_TREE, .cost = "ceil(lg p)(2 alpha + 2 n beta + n gamma)",
          .rounds = rounds_two_trees_and_one, .scratch = scratch_whole);

/* ---- recursive_doubling */

static struct move recursive_doubling_move(const struct context *c, int64_t r)
{
    const int removed = removed_count(c), x = survivor_rank(c, c->rank);
    const int k = (int)r - (removed > 0);
    struct move m = move_none();

    if (k < 0 || k == log2_floor(c->size))
        return pair_move(c, k < 0);
    if (x < 0)
        return m;
    m.to = m.from = survivor_process(c, x ^ 1 << k);
    m.send = m.receive = range_whole(c);
    m.fold = x >> k & 1 ? FOLD_LEFT : FOLD_RIGHT;
    m.fresh = k == 0 && c->rank >= 2 * removed;
    return m;
}

static int64_t recursive_doubling_rounds(const struct context *c)
{
    return survivors_halving_rounds(c) + 1;
}

ALGORITHM(allreduce, recursive_doubling, .keeps_order = true,
          .cost = "ceil(lg p)(alpha + n beta + n gamma); p not a power of two: + alpha + n beta",
          .source = "Rabenseifner and Adamidis 2004, Section 3.4",
          .rounds = recursive_doubling_rounds, .scratch = scratch_whole, .round = moves_round,
          .move = recursive_doubling_move);

/* ---- halving_doubling */

ALGORITHM(allreduce, halving_doubling, HALVING_DOUBLING,
          .cost = "2 lg p alpha + (1 - 1/p)(2 n beta + n gamma); p not a power of two: "
                  "(2 lg p' + 3) alpha + (4 - 2/p') n beta + (3/2 - 1/p') n gamma",
          .scratch = halving_half);

/* ---- binary_blocks */

/* Two ranks of the larger block have the two halves that a rank of the smaller block needs. They
 * must also exchange them with each other. If there are only two blocks, the lower rank sends its
 * half down while it receives the other half; then the roles change. This takes one round more than
 * the exchange, not two. With more blocks both ranks send down first, because the chain of smaller
 * blocks is the critical path. */
static struct move blocks_giving(const struct context *c, const struct vector_blocks *b, bool first)
{
    const int x = c->rank - b->own.begin, k = b->smaller.levels;
    const bool two = b->larger.levels < 0 && b->smaller.begin + (1 << k) == c->size;
    const bool lower = (x >> k & 1) == 0;
    struct move m = doubling_move(c, x, b->own.begin + (x ^ 1 << k), k);

    if (x >> (k + 1) != 0)
        return first ? move_none() : m;
    if (two ? first != lower : first)
        m.from = -1;
    if (two ? first == lower : first)
        m.to = b->smaller.begin + x % (1 << k);
    return m;
}

/* Receive the two halves of this rank's part from the larger block, then double inside the
 * block. */
static struct move blocks_sharing(const struct context *c, int64_t r)
{
    const struct vector_blocks b = blocks_of(c->size, c->rank);
    const int x = c->rank - b.own.begin;

    if (b.larger.levels >= 0 && r < 2) {
        const int y = x + (r == 1 ? 1 << b.own.levels : 0);
        struct move m = move_none();

        m.from = b.larger.begin + y;
        m.receive = halving_range(c, y, b.own.levels + 1);
        return m;
    }
    const int left = b.own.levels - 1 - (int)r + (b.larger.levels >= 0 ? 2 : 0);
    const bool given = b.smaller.levels >= 0 && left < b.smaller.levels; /* its round is over */
    const int k = left + given;

    if (k == b.smaller.levels)
        return blocks_giving(c, &b, !given);
    return doubling_move(c, x, b.own.begin + (x ^ 1 << k), k);
}

static struct move blocks_move(const struct context *c, int64_t r)
{
    const int64_t reducing = blocks_reducing_rounds(c);

    return r < reducing ? blocks_reducing(c, r) : blocks_sharing(c, r - reducing);
}

static int64_t blocks_rounds(const struct context *c)
{
    const struct vector_blocks b = blocks_of(c->size, c->rank);
    const int received = b.larger.levels >= 0 ? 2 : 0, given = b.smaller.levels >= 0;

    return blocks_reducing_rounds(c) + received + b.own.levels + given + 1;
}

ALGORITHM(allreduce, binary_blocks, BINARY_BLOCKS, .scratch = halving_half);
