/* Blocks in rank order and rings, for several algorithms. */
#include "schedule/algorithms/building_blocks.h"

#include "base/base.h"

/* ---- blocks of ranks */

int64_t *begins_fill(int64_t *begins, int size, const int64_t *counts, int64_t each)
{
    begins[0] = 0;
    for (int i = 0; i < size; i++)
        begins[i + 1] = begins[i] + (counts != NULL ? counts[i] : each);
    return begins + size + 1;
}

int64_t counts_sum(int size, const int64_t *counts, int64_t each)
{
    int64_t sum = 0;

    for (int i = 0; i < size; i++)
        sum += counts != NULL ? counts[i] : each;
    return sum;
}

bool table_allocate(struct context *c, int64_t numbers)
{
    c->table = memory_allocate(sizeof *c->table * (size_t)numbers);
    return c->table != NULL;
}

bool begins_prepare(struct context *c)
{
    if (!table_allocate(c, c->size + 1))
        return false;
    begins_fill(c->table, c->size, c->problem->counts, c->problem->bytes);
    return true;
}

struct range block_range(const struct context *c, int rank)
{
    const int64_t m = c->problem->bytes;

    return c->table != NULL ? range_at(c->table, rank) : (struct range){rank * m, m};
}

int64_t find_last(const int64_t *values, int64_t count, int64_t limit)
{
    int64_t low = 0, high = count;

    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;

        if (values[middle] <= limit)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- rings */

void block_ring_round(const struct context *c, const struct block_ring *w, int64_t r,
                      struct round *out)
{
    int before = modulo(w->position - 1, w->size), after = modulo(w->position + 1, w->size);
    const int received = modulo(before - r, w->size), sent = modulo(w->position - r, w->size);

    if (w->size == 1)
        return;
    if (w->rank_at != NULL) {
        before = w->rank_at(c, before);
        after = w->rank_at(c, after);
    }
    emit_message(out, STEP_RECEIVE, before, BUFFER_OUT, w->block(c, received));
    emit_message(out, STEP_SEND, after, BUFFER_OUT, w->block(c, sent));
}

void ring_round(const struct context *c, struct range (*block)(const struct context *c, int rank),
                int64_t r, struct round *out)
{
    const struct block_ring all = {.size = c->size, .position = c->rank, .block = block};

    block_ring_round(c, &all, r, out);
}
