/* Gather and gatherv: the root gets a block from everybody.
 *
 *   linear    everybody sends to the root at once      (p-1)(alpha + m beta), one round
 *   binomial  a process sends its whole subtree's      ceil(lg p) alpha + (p-1) m beta
 *             blocks to its parent, as soon as it has
 *             them (regular forms only: nobody but the root knows the counts of a gatherv)
 *
 * A subtree is a range of relative ranks (tree.h). The root receives it where it belongs, but the
 * one that passes rank p-1 and goes on at 0, which it puts in order in an additional round.
 */
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/tree.h"

#include <stddef.h>

/* ---- linear */

static int64_t one(const struct context *c)
{
    (void)c;
    return 1;
}

static void linear_round(const struct context *c, int64_t r, struct round *out)
{
    const struct problem *const p = c->problem;
    int64_t place = 0;

    (void)r;
    if (c->rank != p->root) {
        emit_send(out, p->root, BUFFER_IN, 0, p->bytes);
        return;
    }
    for (int i = 0; i < c->size; i++) {
        const int64_t length = p->counts != NULL ? p->counts[i] : p->bytes;

        if (i == c->rank)
            emit_copy(out, BUFFER_OUT, place, BUFFER_IN, 0, length);
        else
            emit_receive(out, i, BUFFER_OUT, place, length);
        place += length;
    }
}

const struct algorithm algorithm_gather_linear = {
    .operation = "gather",
    .name = "linear",
    .cost = "(p-1)(alpha + m beta), one round",
    .source = "folklore",
    .direct = true,
    .rounds = one,
    .round = linear_round,
};

const struct algorithm algorithm_gatherv_linear = {
    .operation = "gatherv",
    .name = "linear",
    .cost = "(p-1) alpha + (m - m_root) beta, one round",
    .source = "folklore",
    .direct = true,
    .rounds = one,
    .round = linear_round,
};

/* ---- binomial: round k is that of the children v + 2^k; round ceil(lg p) puts in order */

static int64_t binomial_rounds(const struct context *c)
{
    return log2_ceiling(c->size) + 1;
}

/* The root's child whose blocks pass rank p-1, 0: none does. */
static int64_t turning_child(const struct context *c)
{
    for (int64_t child = 1; child < c->size; child *= 2) {
        const int first = absolute_rank(c, child);

        if (first + subtree_size(c, child) > c->size)
            return child;
    }
    return 0;
}

static int64_t binomial_scratch(const struct problem *p)
{
    return largest_subtree(p) * p->bytes;
}

static void put_in_order(const struct context *c, struct round *out)
{
    const int64_t child = turning_child(c), m = c->problem->bytes;

    if (child == 0)
        return;
    const int first = absolute_rank(c, child);
    const int64_t before = c->size - first, blocks = subtree_size(c, child);

    emit_copy(out, BUFFER_OUT, first * m, BUFFER_SCRATCH, 0, before * m);
    emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, before * m, (blocks - before) * m);
}

static void binomial_root(const struct context *c, int64_t child, struct round *out)
{
    const int64_t m = c->problem->bytes, blocks = subtree_size(c, child);
    const int from = absolute_rank(c, child);

    if (child == turning_child(c))
        emit_receive(out, from, BUFFER_SCRATCH, 0, blocks * m);
    else
        emit_receive(out, from, BUFFER_OUT, from * m, blocks * m);
}

static void binomial_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t m = c->problem->bytes, v = relative_rank(c), bit = INT64_C(1) << r;
    const int64_t blocks = subtree_size(c, v);

    if (r == 0 && v == 0)
        emit_copy(out, BUFFER_OUT, c->rank * m, BUFFER_IN, 0, m);
    else if (r == 0 && blocks > 1)
        emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, 0, m);
    if (r == binomial_rounds(c) - 1) {
        if (v == 0)
            put_in_order(c, out);
    } else if (low_bit(c, v) == bit) {
        emit_send(out, absolute_rank(c, v - bit), blocks > 1 ? BUFFER_SCRATCH : BUFFER_IN, 0,
                  blocks * m);
    } else if (low_bit(c, v) > bit && v + bit < c->size) {
        if (v == 0)
            binomial_root(c, bit, out);
        else
            emit_receive(out, absolute_rank(c, v + bit), BUFFER_SCRATCH, bit * m,
                         subtree_size(c, v + bit) * m);
    }
}

const struct algorithm algorithm_gather_binomial = {
    .operation = "gather",
    .name = "binomial",
    .cost = "ceil(lg p) alpha + (p-1) m beta",
    .source = "Thakur, Rabenseifner and Gropp 2005, Section 3",
    .rounds = binomial_rounds,
    .scratch = binomial_scratch,
    .round = binomial_round,
};
