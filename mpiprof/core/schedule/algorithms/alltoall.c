/* Alltoall and alltoallv: each rank has a block for each other rank. In a v-form, lengths differ.
 *
 * Source: Faraj et al., Sections 6 and 7.1; Bruck et al. 1997 for bruck.
 *
 *   simple   all messages at once             1 round of p-1 messages   (p-1)(alpha + m beta)
 *   ring     round i: to rank+i, from rank-i  p-1 rounds of 1 message   (p-1)(alpha + m beta)
 *   pair     round i: with rank xor i         p-1 rounds, p = 2^k       (p-1)(alpha + m beta)
 *   bruck    round k: to rank-2^k, half of the blocks   ceil(lg p) rounds
 *                                             ceil(lg p) alpha + (p/2) ceil(lg p) m beta
 *   *_one_barrier    a barrier first, so that no rank starts a phase before all have arrived
 *   *_light_barrier  orders the messages of two successive rounds to the same rank: a rank that has
 *                    its block of round i permits the sender of round i+1 to send
 *
 * The v-forms are simple and the rings. A phase of a ring lasts as long as its longest message, and
 * empty messages are not sent. But every phase has its token, because neither side knows which
 * phases the other side omits.
 */
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"

/* Partner of a rank in phase i: rank+i and rank-i in a ring, rank xor i in pairs. */
enum partner { RING, PAIR };

static int receiver(const struct context *c, int64_t phase)
{
    return c->algorithm->mode == PAIR ? c->rank ^ (int)phase : modulo(c->rank + phase, c->size);
}

static int sender(const struct context *c, int64_t phase)
{
    return c->algorithm->mode == PAIR ? c->rank ^ (int)phase : modulo(c->rank - phase, c->size);
}

/* For a v-form, fill the table: the begins of the blocks in IN and their end, then the same for
 * OUT. */
static bool blocks_prepare(struct context *c)
{
    if (!table_allocate(c, 2 * ((int64_t)c->size + 1)))
        return false;
    begins_fill(begins_fill(c->table, c->size, c->problem->counts, 0), c->size,
                c->problem->remote_counts, 0);
    return true;
}

static struct range received_range(const struct context *c, int rank)
{
    return c->table != NULL ? range_at(c->table + c->size + 1, rank) : block_range(c, rank);
}

static void own_block(const struct context *c, struct round *out)
{
    const struct range sent = block_range(c, c->rank);
    /* may be smaller in an erroneous program */
    const struct range room = received_range(c, c->rank);

    emit_copy(out, BUFFER_OUT, room.begin, BUFFER_IN, sent.begin,
              sent.length < room.length ? sent.length : room.length);
}

static void exchange(const struct context *c, int64_t phase, struct round *out)
{
    const int to = receiver(c, phase), from = sender(c, phase);

    emit_message(out, STEP_RECEIVE, from, BUFFER_OUT, received_range(c, from));
    emit_message(out, STEP_SEND, to, BUFFER_IN, block_range(c, to));
}

/* ---- simple */

static void simple_round(const struct context *c, int64_t r, struct round *out)
{
    (void)r;
    own_block(c, out);
    for (int i = 1; i < c->size; i++)
        exchange(c, i, out);
}

#define SIMPLE                                                                                     \
    .cost = "(p-1)(alpha + m beta), one round", .source = "Faraj et al. 2008, Section 6",          \
    .direct = true, .rounds = rounds_one, .round = simple_round

ALGORITHM(alltoall, simple, SIMPLE);
ALGORITHM(alltoallv, simple, SIMPLE, .prepare = blocks_prepare);

/* ---- ring and pair; round 0 is a message from a rank to itself */

#define PAIRS                                                                                      \
    .mode = PAIR, .restrictions = "a power of two of processes", .applies = size_is_power_of_two

static void phase_round(const struct context *c, int64_t r, struct round *out)
{
    if (r == 0)
        own_block(c, out);
    else
        exchange(c, r, out);
}

#define PLAIN                                                                                      \
    .cost = "(p-1)(alpha + m beta)", .source = "Faraj et al. 2008, Section 6", .direct = true,     \
    .rounds = rounds_size, .round = phase_round

ALGORITHM(alltoall, ring, PLAIN);
ALGORITHM(alltoallv, ring, .prepare = blocks_prepare, PLAIN);
ALGORITHM(alltoall, pair, PAIRS, PLAIN);

/* ---- one barrier, in round 0 */

static void one_barrier_round(const struct context *c, int64_t r, struct round *out)
{
    phase_round(c, r, out);
    if (r == 0)
        emit_barrier(out);
}

#define ONE_BARRIER                                                                                \
    .cost = "barrier + (p-1)(alpha + m beta)", .source = "Faraj et al. 2008, Section 7.1",         \
    .direct = true, .rounds = rounds_size, .round = one_barrier_round

ALGORITHM(alltoall, ring_one_barrier, ONE_BARRIER);
ALGORITHM(alltoallv, ring_one_barrier, .prepare = blocks_prepare, ONE_BARRIER);
ALGORITHM(alltoall, pair_one_barrier, PAIRS, ONE_BARRIER);

/* ---- light barriers: rounds 2i - 1 are tokens, rounds 2i the messages of phase i
 *
 * Before phase i a rank informs its next sender that it has finished phase i-1. It waits for the
 * same token from its next receiver. Phase 1 needs no tokens. */

static int64_t light_rounds(const struct context *c)
{
    return 2 * (int64_t)c->size - 1;
}

static void light_barrier_round(const struct context *c, int64_t r, struct round *out)
{
    if (r % 2 == 0) {
        phase_round(c, r / 2, out);
    } else if (r > 1) {
        emit_token(out, STEP_RECEIVE, receiver(c, (r + 1) / 2));
        emit_token(out, STEP_SEND, sender(c, (r + 1) / 2));
    }
}

#define LIGHT_BARRIERS                                                                             \
    .cost = "(p-1)(2 alpha + m beta)", .source = "Faraj et al. 2008, Section 7.1", .direct = true, \
    .rounds = light_rounds, .round = light_barrier_round

ALGORITHM(alltoall, ring_light_barrier, LIGHT_BARRIERS);
ALGORITHM(alltoallv, ring_light_barrier, .prepare = blocks_prepare, LIGHT_BARRIERS);
ALGORITHM(alltoall, pair_light_barrier, PAIRS, LIGHT_BARRIERS);

/* ---- bruck
 *
 * The blocks are rotated so that slot i of SCRATCH is the block for rank + i. Round k sends the
 * slots i with bit k of i set to rank + 2^k, and replaces them by the slots of rank - 2^k. So a
 * block for rank + i takes one hop per set bit of i. At the end slot i contains the block from rank
 * - i. The slots of a round are packed in a second part of SCRATCH and received in a third.
 */

static int64_t bruck_scratch(const struct problem *p)
{
    return 3 * p->size * p->bytes;
}

static int bruck_moving(const struct context *c, int64_t bit, bool unpack, int64_t part,
                        struct round *out)
{
    const int64_t m = c->problem->bytes;
    int moving = 0;

    for (int i = 0; i < c->size; i++) {
        if ((i >> bit & 1) == 0)
            continue;
        const int64_t packed = part * c->size * m + moving++ * m;

        if (unpack)
            emit_copy(out, BUFFER_SCRATCH, i * m, BUFFER_SCRATCH, packed, m);
        else
            emit_copy(out, BUFFER_SCRATCH, packed, BUFFER_SCRATCH, i * m, m);
    }
    return moving;
}

static void bruck_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t m = c->problem->bytes, whole = c->size * m;

    if (r == 0)
        for (int i = 0; i < c->size; i++)
            emit_copy(out, BUFFER_SCRATCH, i * m, BUFFER_IN, modulo(c->rank + i, c->size) * m, m);
    else
        bruck_moving(c, r - 1, true, 2, out);
    if (r == rounds_tree(c)) {
        for (int i = 0; i < c->size; i++)
            emit_copy(out, BUFFER_OUT, modulo(c->rank - i, c->size) * m, BUFFER_SCRATCH, i * m, m);
        return;
    }
    const int moving = bruck_moving(c, r, false, 1, out);

    emit_receive(out, sender(c, INT64_C(1) << r), BUFFER_SCRATCH, 2 * whole, moving * m);
    emit_send(out, receiver(c, INT64_C(1) << r), BUFFER_SCRATCH, whole, moving * m);
}

ALGORITHM(alltoall, bruck, .cost = "ceil(lg p) alpha + (p/2) ceil(lg p) m beta",
          .source = "Bruck et al. 1997; Faraj et al. 2008, Section 6",
          .rounds = rounds_tree_and_one, .scratch = bruck_scratch, .round = bruck_round);
