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

enum way { UP, DOWN }; /* the variants: gather and scatter */

static enum buffer all_blocks(enum way way)
{
    return way == UP ? BUFFER_OUT : BUFFER_IN;
}

static enum buffer own_block(enum way way)
{
    return way == UP ? BUFFER_IN : BUFFER_OUT;
}

static void with_parent(struct round *out, enum way way, int peer, enum buffer b, int64_t length)
{
    if (way == UP)
        emit_send(out, peer, b, 0, length);
    else
        emit_receive(out, peer, b, 0, length);
}

static void with_child(struct round *out, enum way way, int peer, enum buffer b, int64_t offset,
                       int64_t length)
{
    if (way == UP)
        emit_receive(out, peer, b, offset, length);
    else
        emit_send(out, peer, b, offset, length);
}

/* Copy between the buffer of all blocks and a buffer of one or some blocks. */
static void copy_blocks(struct round *out, enum way way, int64_t place, enum buffer b,
                        int64_t offset, int64_t length)
{
    if (way == UP)
        emit_copy(out, BUFFER_OUT, place, b, offset, length);
    else
        emit_copy(out, b, offset, BUFFER_IN, place, length);
}

/* ---- linear */

static void linear_round(const struct context *c, int64_t r, struct round *out)
{
    const struct problem *const p = c->problem;
    const enum way way = (enum way)c->algorithm->variant;
    int64_t place = 0;

    (void)r;
    if (c->rank != p->root) {
        with_parent(out, way, p->root, own_block(way), p->bytes);
        return;
    }
    for (int i = 0; i < c->size; i++) {
        const int64_t length = block_bytes(p, i);

        if (i == c->rank)
            copy_blocks(out, way, place, own_block(way), 0, length);
        else
            with_child(out, way, i, all_blocks(way), place, length);
        place += length;
    }
}

#define LINEAR                                                                                     \
    .name = "linear", .source = "folklore", .direct = true, .rounds = rounds_one,                  \
    .round = linear_round
#define LINEAR_COST "(p-1)(alpha + m beta), one round"
#define LINEAR_V_COST "(p-1) alpha + (m - m_root) beta, one round"

const struct algorithm algorithm_gather_linear = {
    .operation = "gather", .variant = UP, LINEAR, .cost = LINEAR_COST};
const struct algorithm algorithm_gatherv_linear = {
    .operation = "gatherv", .variant = UP, LINEAR, .cost = LINEAR_V_COST};
const struct algorithm algorithm_scatter_linear = {
    .operation = "scatter", .variant = DOWN, LINEAR, .cost = LINEAR_COST};
const struct algorithm algorithm_scatterv_linear = {
    .operation = "scatterv", .variant = DOWN, LINEAR, .cost = LINEAR_V_COST};

/* ---- binomial
 *
 * Of q = ceil(lg p) rounds, round k belongs to the children v + 2^k upwards, and to v + 2^(q-1-k)
 * downwards. In an additional round a gather puts blocks in order, and a scatter copies each rank's
 * own block; a gather copies it in round 0. */

static int64_t binomial_scratch(const struct problem *p)
{
    return largest_subtree(p) * p->bytes;
}

/* Return true if a child's blocks wrap from rank p-1 to 0. */
static bool blocks_wrap(const struct context *c, int64_t child)
{
    return absolute_rank(c, child) + subtree_size(c, child) > c->size;
}

/* Copy the blocks of the root's child that wraps, between SCRATCH and their final position. */
static void copy_wrapped(const struct context *c, enum way way, int64_t child, struct round *out)
{
    const int first = absolute_rank(c, child);
    const int64_t m = c->problem->bytes, before = c->size - first;

    copy_blocks(out, way, first * m, BUFFER_SCRATCH, 0, before * m);
    copy_blocks(out, way, 0, BUFFER_SCRATCH, before * m, (subtree_size(c, child) - before) * m);
}

static void put_in_order(const struct context *c, struct round *out)
{
    for (int64_t child = 1; child < c->size; child *= 2)
        if (blocks_wrap(c, child))
            copy_wrapped(c, UP, child, out);
}

static void with_root_s_child(const struct context *c, enum way way, int64_t child,
                              struct round *out)
{
    const int64_t m = c->problem->bytes, blocks = subtree_size(c, child);
    const int peer = absolute_rank(c, child);

    if (!blocks_wrap(c, child)) {
        with_child(out, way, peer, all_blocks(way), peer * m, blocks * m);
        return;
    }
    if (way == DOWN)
        copy_wrapped(c, way, child, out);
    with_child(out, way, peer, BUFFER_SCRATCH, 0, blocks * m);
}

static void keep_own(const struct context *c, enum way way, struct round *out)
{
    const int64_t m = c->problem->bytes, v = relative_rank(c);

    if (v == 0)
        copy_blocks(out, way, c->rank * m, own_block(way), 0, m);
    else if (subtree_size(c, v) > 1 && way == UP)
        emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, 0, m);
    else if (subtree_size(c, v) > 1)
        emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, 0, m);
}

static void binomial_round(const struct context *c, int64_t r, struct round *out)
{
    const enum way way = (enum way)c->algorithm->variant;
    const int64_t m = c->problem->bytes, v = relative_rank(c), last = rounds_tree(c);
    const int64_t blocks = subtree_size(c, v);
    const int64_t bit = INT64_C(1) << (way == UP || r == last ? r : last - 1 - r);

    if (r == (way == UP ? 0 : last))
        keep_own(c, way, out);
    if (r == last) {
        if (way == UP && v == 0)
            put_in_order(c, out);
    } else if (low_bit(c, v) == bit) {
        with_parent(out, way, absolute_rank(c, v - bit),
                    blocks > 1 ? BUFFER_SCRATCH : own_block(way), blocks * m);
    } else if (low_bit(c, v) > bit && v + bit < c->size) {
        if (v == 0)
            with_root_s_child(c, way, bit, out);
        else
            with_child(out, way, absolute_rank(c, v + bit), BUFFER_SCRATCH, bit * m,
                       subtree_size(c, v + bit) * m);
    }
}

#define BINOMIAL                                                                                   \
    .name = "binomial", .cost = "ceil(lg p) alpha + (p-1) m beta",                                 \
    .source = "Thakur, Rabenseifner and Gropp 2005, Section 3", .rounds = rounds_tree_and_one,     \
    .scratch = binomial_scratch, .round = binomial_round

const struct algorithm algorithm_gather_binomial = {.operation = "gather", .variant = UP, BINOMIAL};
const struct algorithm algorithm_scatter_binomial = {
    .operation = "scatter", .variant = DOWN, BINOMIAL};
