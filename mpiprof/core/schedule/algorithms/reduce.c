/* Reduce: the vectors of all ranks are combined, and the root gets the result.
 *
 * Source: Rabenseifner and Adamidis 2004, Section 3. n: bytes of the vector, p' = 2^floor(lg p).
 *
 *   binary_tree       step k: join runs of 2^k ranks in pairs             ceil(lg p) rounds of n
 *
 *         0   1   2   3   4   5   6     root 5        The partial result of a run is on its
 *         0<--1   2<--3   4-->5   6                   first rank, but on the root for its run.
 *         0<------2           5<--6                   So any root needs no extra message, and
 *         0------------------>5                       the operands stay in rank order.
 *
 *   halving_doubling  reduce-scatter by halving the vector and doubling the distance, then a binary
 *                     tree collects the parts. If p is not a power of two, the first 2(p-p') ranks
 *                     reduce half a vector in pairs, and one of each pair continues. A root that
 *                     would be removed exchanges roles with its partner.
 *   binary_blocks     the ranks as runs of 2^k, the largest first, each with its own halvings.
 *                     Starting with the smallest, the parts of a block are combined with the next
 *                     larger block. The binary tree of the largest block collects the parts. A root
 *                     outside the largest block takes rank 0's part and its role. p = 13:
 *
 *         0 .. 7   | 8 .. 11 | 12       12 sends quarters to 8 .. 11; each of these sends its two
 *         eighths  | quarters| all      eighths to ranks 0 .. 7
 *
 *   ring              pairwise reduce-scatter, then all ranks send their block to the root
 *
 * All preserve the order of operands, so any operation is allowed.
 */
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/reductions.h"

/* ---- binary_tree */

static int64_t tree_scratch(const struct problem *p)
{
    return 2 * p->bytes; /* the root works in OUT and needs only half */
}

ALGORITHM(reduce, binary_tree, .mode = RESULT_FOR_ROOT, BINARY_TREE,
          .cost = "ceil(lg p)(alpha + n beta + n gamma)", .rounds = rounds_tree_and_one,
          .scratch = tree_scratch);

/* ---- halving_doubling */

static int64_t halving_scratch(const struct problem *p)
{
    return p->bytes + halving_half(p);
}

ALGORITHM(reduce, halving_doubling, .mode = RESULT_FOR_ROOT, HALVING_DOUBLING,
          .cost = "2 lg p alpha + (1 - 1/p)(2 n beta + n gamma); p not a power of two: "
                  "(2 lg p' + 2) alpha + (3 - 2/p') n beta + (3/2 - 1/p') n gamma",
          .scratch = halving_scratch);

/* ---- binary_blocks */

static bool root_outside(const struct context *c)
{
    return c->problem->root >> log2_floor(c->size) != 0;
}

/* Return true if rank 0 and the root exchange roles, and this rank is one of them. */
static bool exchanges_role(const struct context *c)
{
    return root_outside(c) && (c->rank == 0 || c->rank == c->problem->root);
}

/* Return the rank's number in the collecting tree, or -1 for none. */
static int collecting_number(const struct context *c)
{
    if (exchanges_role(c))
        return c->rank == 0 ? -1 : 0;
    return c->rank >> log2_floor(c->size) == 0 ? c->rank : -1;
}

/* If the root is outside the largest block, its first round of collecting is rank 0's message. */
static struct move blocks_collecting(const struct context *c, int64_t r)
{
    const int levels = log2_floor(c->size), root = c->problem->root, x = collecting_number(c);
    const bool outside = root_outside(c);
    struct move m = move_none();

    if (exchanges_role(c) && r-- == 0) {
        m.send = m.receive = halving_range(c, 0, levels);
        if (c->rank == 0)
            m.to = root;
        else
            m.from = 0;
        return m;
    }
    if (x < 0)
        return m;
    const int k = levels - 1 - (int)r, y = x ^ 1 << k;

    return collecting_move(c, x, outside ? 0 : root, outside && y == 0 ? root : y, k);
}

static struct move blocks_move(const struct context *c, int64_t r)
{
    const int64_t reducing = blocks_reducing_rounds(c);

    return r < reducing ? blocks_reducing(c, r) : blocks_collecting(c, r - reducing);
}

static int64_t blocks_rounds(const struct context *c)
{
    const int collecting = collecting_number(c) < 0 ? 0 : log2_floor(c->size);

    return blocks_reducing_rounds(c) + exchanges_role(c) + collecting + 1;
}

ALGORITHM(reduce, binary_blocks, .mode = RESULT_FOR_ROOT, BINARY_BLOCKS,
          .scratch = halving_scratch);

/* ---- ring */

static int64_t pairwise_scratch(const struct problem *p)
{
    return 4 * equal_largest(p);
}

ALGORITHM(reduce, ring, .mode = RESULT_FOR_ROOT, RING);
