/* Pairwise reduce-scatter, and the rings of reduce and allreduce. reductions.h describes them. */
#include "schedule/algorithms/reductions.h"

/* Combine the received blocks. Arrivals 1 .. rank come from lower ranks, the others from higher
 * ranks. The first one from a higher rank is only stored, and the result of the higher ranks is
 * combined last.
 *
 * This first arrival leaves its rank nothing to reduce, in a different round on each rank. So
 * arrivals from lower ranks are combined one round later, and no rank combines in the first round.
 * Otherwise some rank would reduce in every round: p parts in total, although each rank reduces
 * only p - 1. */
static void pairwise_fold(const struct context *c, const struct pairwise *w, int64_t i,
                          int64_t length, struct round *out)
{
    const int64_t arrived = w->scratch + i % 2 * length, high = w->scratch + 2 * length;
    const int64_t before = w->scratch + (i - 1) % 2 * length, last = c->size - 1;

    if (i > 1 && i - 1 <= c->rank)
        emit_reduce(out, w->into, w->offset, BUFFER_SCRATCH, before, length, false);
    if (i > c->rank + 1)
        emit_reduce(out, BUFFER_SCRATCH, high, BUFFER_SCRATCH, arrived, length, false);
    if (i == last && c->rank == last)
        emit_reduce(out, w->into, w->offset, BUFFER_SCRATCH, arrived, length, false);
    else if (i == last)
        emit_reduce(out, w->into, w->offset, BUFFER_SCRATCH, high, length, true);
}

void pairwise_round(const struct context *c, const struct pairwise *w, int64_t r, struct round *out)
{
    const struct range own = w->block(c, c->rank);
    const int64_t length = own.length, i = r + 1;
    const int to = modulo(c->rank + i, c->size), from = modulo(c->rank - i, c->size);

    if (r == 0)
        emit_copy(out, w->into, w->offset, BUFFER_IN, own.begin, length);
    else
        pairwise_fold(c, w, r, length, out);
    if (i == c->size)
        return;
    emit_receive(out, from, BUFFER_SCRATCH, w->scratch + (i == c->rank + 1 ? 2 : i % 2) * length,
                 length);
    emit_message(out, STEP_SEND, to, BUFFER_IN, w->block(c, to));
}

void pairwise_ring_round(const struct context *c, int64_t r, struct round *out)
{
    const struct range own = equal_block(c, c->rank);
    const bool gets_result = work_buffer(c) == BUFFER_OUT;
    const struct pairwise w = {.into = work_buffer(c),
                               .offset = gets_result ? own.begin : 0,
                               .scratch = gets_result ? 0 : equal_largest(c->problem),
                               .block = equal_block};
    const int64_t collecting = r - c->size + 1;

    if (r < c->size)
        pairwise_round(c, &w, r, out);
    if (collecting < 0 || c->size == 1)
        return;
    const int root = c->problem->root, sender = modulo(root + collecting + 1, c->size);

    if (c->algorithm->mode == RESULT_FOR_ALL)
        ring_round(c, equal_block, collecting, out);
    else if (c->rank == root)
        emit_message(out, STEP_RECEIVE, sender, BUFFER_OUT, equal_block(c, sender));
    else if (c->rank == sender)
        emit_send(out, root, w.into, w.offset, own.length);
}

struct range equal_block(const struct context *c, int i)
{
    return parts_range(c->problem->bytes, c->problem->unit, c->size, i, i + 1);
}

int64_t equal_largest(const struct problem *p)
{
    return part_begin(p->bytes, p->unit, p->size, 1);
}
