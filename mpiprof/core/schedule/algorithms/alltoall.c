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
#include "base/base.h"
#include "schedule/algorithms/catalogue.h"

static int64_t one_round(const struct context *c)
{
    (void)c;
    return 1;
}

/* For a v-form, fill the table: the begins of the blocks in IN and their end, then the same for
 * OUT. */
static bool blocks_prepare(struct context *c)
{
    const int p = c->size;

    c->table = memory_allocate(sizeof *c->table * 2 * (size_t)(p + 1));
    if (c->table == NULL)
        return false;
    c->table[0] = c->table[p + 1] = 0;
    for (int i = 0; i < p; i++) {
        c->table[i + 1] = c->table[i] + c->problem->counts[i];
        c->table[p + 1 + i + 1] = c->table[p + 1 + i] + c->problem->remote_counts[i];
    }
    return true;
}

struct block {
    int64_t begin, length;
};

static struct block block_of(const struct context *c, enum buffer b, int rank)
{
    const int64_t m = c->problem->bytes;

    if (c->table == NULL)
        return (struct block){rank * m, m};
    const int64_t *const begins = c->table + (b == BUFFER_IN ? 0 : c->size + 1);

    return (struct block){begins[rank], begins[rank + 1] - begins[rank]};
}

static void own_block(const struct context *c, struct round *out)
{
    const struct block sent = block_of(c, BUFFER_IN, c->rank);
    /* may be smaller in an erroneous program */
    const struct block room = block_of(c, BUFFER_OUT, c->rank);

    emit_copy(out, BUFFER_OUT, room.begin, BUFFER_IN, sent.begin,
              sent.length < room.length ? sent.length : room.length);
}

static void exchange(const struct context *c, int to, int from, struct round *out)
{
    const struct block sent = block_of(c, BUFFER_IN, to), got = block_of(c, BUFFER_OUT, from);

    emit_receive(out, from, BUFFER_OUT, got.begin, got.length);
    emit_send(out, to, BUFFER_IN, sent.begin, sent.length);
}

/* ---- simple */

static void simple_round(const struct context *c, int64_t r, struct round *out)
{
    (void)r;
    own_block(c, out);
    for (int i = 1; i < c->size; i++)
        exchange(c, modulo(c->rank + i, c->size), modulo(c->rank - i, c->size), out);
}

#define SIMPLE                                                                                     \
    .name = "simple", .cost = "(p-1)(alpha + m beta), one round",                                  \
    .source = "Faraj et al. 2008, Section 6", .direct = true, .rounds = one_round,                 \
    .round = simple_round

const struct algorithm algorithm_alltoall_simple = {.operation = "alltoall", SIMPLE};

const struct algorithm algorithm_alltoallv_simple = {
    .operation = "alltoallv", SIMPLE, .prepare = blocks_prepare};

/* ---- ring and pair; round 0 is a message from a rank to itself */

static int64_t size_rounds(const struct context *c)
{
    return c->size;
}

static void ring_round(const struct context *c, int64_t r, struct round *out)
{
    if (r == 0)
        own_block(c, out);
    else
        exchange(c, modulo(c->rank + r, c->size), modulo(c->rank - r, c->size), out);
}

static void pair_round(const struct context *c, int64_t r, struct round *out)
{
    if (r == 0)
        own_block(c, out);
    else
        exchange(c, c->rank ^ (int)r, c->rank ^ (int)r, out);
}

static bool power_of_two(const struct problem *p)
{
    return is_power_of_two(p->size);
}

#define PAIRS                                                                                      \
    .operation = "alltoall", .restrictions = "a power of two of processes", .applies = power_of_two

#define PLAIN                                                                                      \
    .cost = "(p-1)(alpha + m beta)", .source = "Faraj et al. 2008, Section 6", .direct = true,     \
    .rounds = size_rounds

#define RING .name = "ring", .round = ring_round, PLAIN

const struct algorithm algorithm_alltoall_ring = {.operation = "alltoall", RING};

const struct algorithm algorithm_alltoallv_ring = {
    .operation = "alltoallv", RING, .prepare = blocks_prepare};

const struct algorithm algorithm_alltoall_pair = {PAIRS, .name = "pair", .round = pair_round,
                                                  PLAIN};

/* ---- one barrier, in round 0 */

static void ring_one_barrier_round(const struct context *c, int64_t r, struct round *out)
{
    ring_round(c, r, out);
    if (r == 0)
        emit_barrier(out);
}

static void pair_one_barrier_round(const struct context *c, int64_t r, struct round *out)
{
    pair_round(c, r, out);
    if (r == 0)
        emit_barrier(out);
}

#define ONE_BARRIER                                                                                \
    .cost = "barrier + (p-1)(alpha + m beta)", .source = "Faraj et al. 2008, Section 7.1",         \
    .direct = true, .rounds = size_rounds

#define RING_ONE_BARRIER .name = "ring_one_barrier", .round = ring_one_barrier_round, ONE_BARRIER

const struct algorithm algorithm_alltoall_ring_one_barrier = {.operation = "alltoall",
                                                              RING_ONE_BARRIER};

const struct algorithm algorithm_alltoallv_ring_one_barrier = {
    .operation = "alltoallv", RING_ONE_BARRIER, .prepare = blocks_prepare};

const struct algorithm algorithm_alltoall_pair_one_barrier = {
    PAIRS, .name = "pair_one_barrier", .round = pair_one_barrier_round, ONE_BARRIER};

/* ---- light barriers: rounds 2i - 1 are tokens, rounds 2i the messages of phase i
 *
 * Before phase i a rank informs its next sender that it has finished phase i-1. It waits for the
 * same token from its next receiver. Phase 1 needs no tokens. */

static int64_t light_rounds(const struct context *c)
{
    return 2 * (int64_t)c->size - 1;
}

static void ring_light_barrier_round(const struct context *c, int64_t r, struct round *out)
{
    if (r % 2 == 0) {
        ring_round(c, r / 2, out);
    } else if (r > 1) {
        emit_token_receive(out, modulo(c->rank + (r + 1) / 2, c->size));
        emit_token_send(out, modulo(c->rank - (r + 1) / 2, c->size));
    }
}

static void pair_light_barrier_round(const struct context *c, int64_t r, struct round *out)
{
    if (r % 2 == 0) {
        pair_round(c, r / 2, out);
    } else if (r > 1) {
        emit_token_receive(out, c->rank ^ (int)((r + 1) / 2));
        emit_token_send(out, c->rank ^ (int)((r + 1) / 2));
    }
}

#define LIGHT_BARRIERS                                                                             \
    .cost = "(p-1)(2 alpha + m beta)", .source = "Faraj et al. 2008, Section 7.1", .direct = true, \
    .rounds = light_rounds

#define RING_LIGHT_BARRIER                                                                         \
    .name = "ring_light_barrier", .round = ring_light_barrier_round, LIGHT_BARRIERS

const struct algorithm algorithm_alltoall_ring_light_barrier = {.operation = "alltoall",
                                                                RING_LIGHT_BARRIER};

const struct algorithm algorithm_alltoallv_ring_light_barrier = {
    .operation = "alltoallv", RING_LIGHT_BARRIER, .prepare = blocks_prepare};

const struct algorithm algorithm_alltoall_pair_light_barrier = {
    PAIRS, .name = "pair_light_barrier", .round = pair_light_barrier_round, LIGHT_BARRIERS};

/* ---- bruck
 *
 * The blocks are rotated so that slot i of SCRATCH is the block for rank + i. Round k sends the
 * slots i with bit k of i set to rank + 2^k, and replaces them by the slots of rank - 2^k. So a
 * block for rank + i takes one hop per set bit of i. At the end slot i contains the block from rank
 * - i. The slots of a round are packed in a second part of SCRATCH and received in a third.
 */

static int64_t bruck_rounds(const struct context *c)
{
    return log2_ceiling(c->size) + 1;
}

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
    if (r == bruck_rounds(c) - 1) {
        for (int i = 0; i < c->size; i++)
            emit_copy(out, BUFFER_OUT, modulo(c->rank - i, c->size) * m, BUFFER_SCRATCH, i * m, m);
        return;
    }
    const int moving = bruck_moving(c, r, false, 1, out);

    emit_receive(out, modulo(c->rank - (INT64_C(1) << r), c->size), BUFFER_SCRATCH, 2 * whole,
                 moving * m);
    emit_send(out, modulo(c->rank + (INT64_C(1) << r), c->size), BUFFER_SCRATCH, whole, moving * m);
}

const struct algorithm algorithm_alltoall_bruck = {
    .operation = "alltoall",
    .name = "bruck",
    .cost = "ceil(lg p) alpha + (p/2) ceil(lg p) m beta",
    .source = "Bruck et al. 1997; Faraj et al. 2008, Section 6",
    .rounds = bruck_rounds,
    .scratch = bruck_scratch,
    .round = bruck_round,
};
