/* Pieces of unequal length, which a ring or a chain passes on in blocks; see building_blocks.h. */
#include "base/base.h"
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/tree.h"

/* Return the best block size of a pipelined ring (ring_block.c), or 0 if memory is insufficient.
 * Pieces that differ by one byte at most are not divided. `lengths` and `order` are scratch memory.
 */
static int64_t best_block(const struct pieces *s, const struct context *c, int64_t *lengths,
                          int64_t *order)
{
    const struct problem problem = {.size = s->ring.size,
                                    .counts = lengths,
                                    .alpha = c->problem->alpha,
                                    .beta = c->problem->beta,
                                    .block_size = c->problem->block_size};
    int64_t largest = 0, smallest = INT64_MAX;

    for (int i = 0; i < s->ring.size; i++) {
        order[i] = i;
        lengths[i] = s->ring.block(c, i).length;
        largest = lengths[i] > largest ? lengths[i] : largest;
        smallest = lengths[i] < smallest ? lengths[i] : smallest;
    }
    if (largest - smallest <= 1 && c->problem->block_size == 0)
        return largest > 0 ? largest : 1;
    return ring_block(&problem, order);
}

bool pieces_prepare(const struct pieces *s, const struct context *c)
{
    const size_t p = (size_t)s->ring.size;
    int64_t *const scratch = memory_allocate(sizeof *scratch * 2 * p);

    if (scratch == NULL)
        return false;
    const int64_t block = best_block(s, c, scratch, scratch + p);

    s->first[0] = 0;
    for (size_t i = 0; block > 0 && i < p; i++) {
        const int64_t blocks = blocks_of(scratch[i], block);

        s->first[i + 1] = s->first[i] + (blocks > 0 ? blocks : 1);
    }
    memory_free(scratch);
    return block > 0;
}

static struct range block_at(const struct pieces *s, const struct context *c, int64_t number)
{
    const int64_t i = find_last(s->first, s->ring.size, number);
    const struct range piece = s->ring.block(c, (int)i), blocks = range_at(s->first, i);
    const int64_t part = number - blocks.begin;
    const struct range block = parts_range(piece.length, 1, blocks.length, part, part + 1);

    return (struct range){piece.begin + block.begin, block.length};
}

/* Return the number of blocks that do not belong to the piece of a position. */
static int64_t blocks_but(const struct pieces *s, int position)
{
    return s->first[s->ring.size] - range_at(s->first, position).length;
}

int64_t pieces_ring_rounds(const struct pieces *s)
{
    const int64_t received = blocks_but(s, s->ring.position);
    const int64_t sent = blocks_but(s, modulo(s->ring.position + 1, s->ring.size));

    return received > sent ? received : sent;
}

void pieces_ring_round(const struct pieces *s, const struct context *c, int64_t r,
                       struct round *out)
{
    const struct block_ring *const w = &s->ring;
    const int before = modulo(w->position - 1, w->size), after = modulo(w->position + 1, w->size);
    const int64_t blocks = s->first[w->size], own = s->first[w->position];
    const int64_t end = s->first[w->position + 1];

    if (r < blocks_but(s, w->position))
        emit_message(out, STEP_RECEIVE, w->rank_at != NULL ? w->rank_at(c, before) : before,
                     BUFFER_OUT, block_at(s, c, (own - 1 - r + blocks) % blocks));
    if (r < blocks_but(s, after))
        emit_message(out, STEP_SEND, w->rank_at != NULL ? w->rank_at(c, after) : after, BUFFER_OUT,
                     block_at(s, c, (end - 1 - r + blocks) % blocks));
}

int64_t pieces_chain_rounds(const struct pieces *s)
{
    return blocks_but(s, 0);
}

struct range pieces_chain_block(const struct pieces *s, const struct context *c, int64_t position,
                                int64_t r)
{
    const int64_t end = s->first[s->ring.size];
    const int64_t number = position < s->ring.size ? s->first[position] + r : end;

    return number < end ? block_at(s, c, number) : (struct range){0};
}
