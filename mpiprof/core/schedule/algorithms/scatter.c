/* Scatter and scatterv: the root has a block for everybody; a gather backwards.
 *
 *   linear    the root sends to everybody at once      (p-1)(alpha + m beta), one round
 *   binomial  a process gets its whole subtree's       ceil(lg p) alpha + (p-1) m beta
 *             blocks and passes the children's on, the largest subtree first
 *             (regular forms only: nobody but the root knows the counts of a scatterv)
 *
 * A subtree is a range of relative ranks (tree.h). The root sends it from where it is, but the one
 * that passes rank p-1 and goes on at 0, which it copies together before.
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
        emit_receive(out, p->root, BUFFER_OUT, 0, p->bytes);
        return;
    }
    for (int i = 0; i < c->size; i++) {
        const int64_t length = p->counts != NULL ? p->counts[i] : p->bytes;

        if (i == c->rank)
            emit_copy(out, BUFFER_OUT, 0, BUFFER_IN, place, length);
        else
            emit_send(out, i, BUFFER_IN, place, length);
        place += length;
    }
}

const struct algorithm algorithm_scatter_linear = {
    .operation = "scatter",
    .name = "linear",
    .cost = "(p-1)(alpha + m beta), one round",
    .source = "folklore",
    .direct = true,
    .rounds = one,
    .round = linear_round,
};

const struct algorithm algorithm_scatterv_linear = {
    .operation = "scatterv",
    .name = "linear",
    .cost = "(p-1) alpha + (m - m_root) beta, one round",
    .source = "folklore",
    .direct = true,
    .rounds = one,
    .round = linear_round,
};

/* ---- binomial: round k is that of the children v + 2^(q-1-k); in round q inner processes keep
 * their own block */

static int64_t binomial_rounds(const struct context *c)
{
    return log2_ceiling(c->size) + 1;
}

static bool turns(const struct context *c, int64_t child)
{
    return absolute_rank(c, child) + subtree_size(c, child) > c->size;
}

static int64_t binomial_scratch(const struct problem *p)
{
    return largest_subtree(p) * p->bytes;
}

static void binomial_root(const struct context *c, int64_t child, struct round *out)
{
    const int64_t m = c->problem->bytes, blocks = subtree_size(c, child);
    const int to = absolute_rank(c, child);
    const int64_t before = c->size - to;

    if (!turns(c, child)) {
        emit_send(out, to, BUFFER_IN, to * m, blocks * m);
        return;
    }
    emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, to * m, before * m);
    emit_copy(out, BUFFER_SCRATCH, before * m, BUFFER_IN, 0, (blocks - before) * m);
    emit_send(out, to, BUFFER_SCRATCH, 0, blocks * m);
}

static void binomial_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t m = c->problem->bytes, v = relative_rank(c), last = binomial_rounds(c) - 1;
    const int64_t blocks = subtree_size(c, v), bit = r < last ? INT64_C(1) << (last - 1 - r) : 0;

    if (r == last) {
        if (v == 0)
            emit_copy(out, BUFFER_OUT, 0, BUFFER_IN, c->rank * m, m);
        else if (blocks > 1)
            emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, 0, m);
    } else if (low_bit(c, v) == bit) {
        emit_receive(out, absolute_rank(c, v - bit), blocks > 1 ? BUFFER_SCRATCH : BUFFER_OUT, 0,
                     blocks * m);
    } else if (low_bit(c, v) > bit && v + bit < c->size) {
        if (v == 0)
            binomial_root(c, bit, out);
        else
            emit_send(out, absolute_rank(c, v + bit), BUFFER_SCRATCH, bit * m,
                      subtree_size(c, v + bit) * m);
    }
}

const struct algorithm algorithm_scatter_binomial = {
    .operation = "scatter",
    .name = "binomial",
    .cost = "ceil(lg p) alpha + (p-1) m beta",
    .source = "Thakur, Rabenseifner and Gropp 2005, Section 3",
    .rounds = binomial_rounds,
    .scratch = binomial_scratch,
    .round = binomial_round,
};
