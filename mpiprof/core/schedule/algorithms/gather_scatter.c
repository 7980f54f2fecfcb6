/* Gather and gatherv collect the blocks of all ranks at the root; scatter and scatterv distribute
 * them. A scatter is a gather backwards, with sends and receives exchanged, and shares its code.
 *
 *   linear    all ranks to or from the root at once       (p-1)(alpha + m beta), one round
 *   binomial  a process sends its subtree's blocks        ceil(lg p) alpha + (p-1) m beta
 *             to its parent as soon as it has them; or it receives them and sends the children's
 *             blocks on, the largest subtree first (only for regular forms, because only the root
 *             knows the counts of a v-form)
 *
 * A subtree is a range of relative ranks (tree.h). The root's blocks are in their final position,
 * except the blocks of the subtree that wraps from rank p-1 to 0. These go through SCRATCH, and a
 * gather puts them in order in an additional round.
 */
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/tree.h"

enum { UP, DOWN }; /* modes: gather and scatter */

struct way {
    enum step_kind to_parent, to_child;
    enum buffer all, own; /* of all blocks at the root, and of this rank's block */
};

static const struct way *way_of(const struct context *c)
{
    static const struct way ways[] = {
        [UP] = {STEP_SEND, STEP_RECEIVE, BUFFER_OUT, BUFFER_IN},
        [DOWN] = {STEP_RECEIVE, STEP_SEND, BUFFER_IN, BUFFER_OUT},
    };

    return &ways[c->algorithm->mode];
}

/* Copy between the buffer of all blocks and a buffer of one or some blocks. */
static void copy_blocks(const struct context *c, struct range blocks, enum buffer b, int64_t offset,
                        struct round *out)
{
    if (c->algorithm->mode == UP)
        emit_copy(out, BUFFER_OUT, blocks.begin, b, offset, blocks.length);
    else
        emit_copy(out, b, offset, BUFFER_IN, blocks.begin, blocks.length);
}

/* ---- linear */

static void linear_round(const struct context *c, int64_t r, struct round *out)
{
    const struct problem *const p = c->problem;
    const struct way *const way = way_of(c);
    struct range block = {0, p->bytes};

    (void)r;
    if (c->rank != p->root) {
        emit_message(out, way->to_parent, p->root, way->own, block);
        return;
    }
    for (int i = 0; i < c->size; i++) {
        block.length = block_bytes(p, i);
        if (i == c->rank)
            copy_blocks(c, block, way->own, 0, out);
        else
            emit_message(out, way->to_child, i, way->all, block);
        block.begin += block.length;
    }
}

#define LINEAR .source = "folklore", .direct = true, .rounds = rounds_one, .round = linear_round
#define LINEAR_COST "(p-1)(alpha + m beta), one round"
#define LINEAR_V_COST "(p-1) alpha + (m - m_root) beta, one round"

ALGORITHM(gather, linear, .mode = UP, LINEAR, .cost = LINEAR_COST);
ALGORITHM(gatherv, linear, .mode = UP, LINEAR, .cost = LINEAR_V_COST);
ALGORITHM(scatter, linear, .mode = DOWN, LINEAR, .cost = LINEAR_COST);
ALGORITHM(scatterv, linear, .mode = DOWN, LINEAR, .cost = LINEAR_V_COST);

/* ---- binomial
 *
 * Of q = ceil(lg p) rounds, round k belongs to the children v + 2^k upwards, and to v + 2^(q-1-k)
 * downwards. In an additional round a gather puts blocks in order, and a scatter copies each rank's
 * own block; a gather copies it in round 0. */

static int64_t binomial_scratch(const struct problem *p)
{
    const int64_t largest_subtree = p->size > 1 ? INT64_C(1) << (log2_ceiling(p->size) - 1) : 0;

    return largest_subtree * p->bytes;
}

/* Return true if a child's blocks wrap from rank p-1 to 0. */
static bool blocks_wrap(const struct context *c, int64_t child)
{
    return absolute_rank(c, child) + subtree_size(c, child) > c->size;
}

/* Copy the blocks of the root's child that wraps, between SCRATCH and their final position. */
static void copy_wrapped(const struct context *c, int64_t child, struct round *out)
{
    const int first = absolute_rank(c, child);
    const int64_t m = c->problem->bytes, before = c->size - first;
    const struct range upper = {first * m, before * m};
    const struct range lower = {0, (subtree_size(c, child) - before) * m};

    copy_blocks(c, upper, BUFFER_SCRATCH, 0, out);
    copy_blocks(c, lower, BUFFER_SCRATCH, before * m, out);
}

static void gather_put_in_order(const struct context *c, struct round *out)
{
    for (int64_t child = 1; child < c->size; child *= 2)
        if (blocks_wrap(c, child))
            copy_wrapped(c, child, out);
}

/* Emit the message between a process and its child. */
static void child_message(const struct context *c, int64_t child, struct round *out)
{
    const struct way *const way = way_of(c);
    const int64_t m = c->problem->bytes, v = relative_rank(c);
    const int peer = absolute_rank(c, child);
    struct range blocks = {(child - v) * m, subtree_size(c, child) * m};
    enum buffer buffer = BUFFER_SCRATCH;

    if (v == 0 && blocks_wrap(c, child)) {
        blocks.begin = 0;
        if (c->algorithm->mode == DOWN)
            copy_wrapped(c, child, out);
    } else if (v == 0) {
        blocks.begin = peer * m;
        buffer = way->all;
    }
    emit_message(out, way->to_child, peer, buffer, blocks);
}

static void copy_own_block(const struct context *c, struct round *out)
{
    const int64_t m = c->problem->bytes, v = relative_rank(c);
    const bool up = c->algorithm->mode == UP;

    if (v == 0)
        copy_blocks(c, (struct range){c->rank * m, m}, way_of(c)->own, 0, out);
    else if (subtree_size(c, v) > 1)
        emit_copy(out, up ? BUFFER_SCRATCH : BUFFER_OUT, 0, up ? BUFFER_IN : BUFFER_SCRATCH, 0, m);
}

static void binomial_round(const struct context *c, int64_t r, struct round *out)
{
    const bool up = c->algorithm->mode == UP;
    const int64_t v = relative_rank(c), last = rounds_tree(c), blocks = subtree_size(c, v);
    const int64_t bit = INT64_C(1) << (up || r == last ? r : last - 1 - r);

    if (r == (up ? 0 : last))
        copy_own_block(c, out);
    if (r == last) {
        if (up && v == 0)
            gather_put_in_order(c, out);
    } else if (low_bit(c, v) == bit) {
        emit_message(out, way_of(c)->to_parent, absolute_rank(c, v - bit),
                     blocks > 1 ? BUFFER_SCRATCH : way_of(c)->own,
                     (struct range){0, blocks * c->problem->bytes});
    } else if (low_bit(c, v) > bit && v + bit < c->size) {
        child_message(c, v + bit, out);
    }
}

#define BINOMIAL                                                                                   \
    .cost = "ceil(lg p) alpha + (p-1) m beta",                                                     \
    .source = "Thakur, Rabenseifner and Gropp 2005, Section 3", .rounds = rounds_tree_and_one,     \
    .scratch = binomial_scratch, .round = binomial_round

ALGORITHM(gather, binomial, .mode = UP, BINOMIAL);
ALGORITHM(scatter, binomial, .mode = DOWN, BINOMIAL);
