/* Alltoallv: every rank has a block of its own length for every other.
 *
 * Source: Faraj et al. 2008, Sections 6 and 7.1. The pictures are in alltoall.c; a phase of the
 * ring lasts as long as its longest message, and empty messages are not sent.
 *
 *   simple              all messages at once
 *   ring                round i: to rank+i, from rank-i         p-1 rounds of 1 message
 *   ring_one_barrier    a barrier first
 *   ring_light_barrier  the messages of two rounds that go to one rank are made to follow each
 * other
 */
#include "base/memory.h"
#include "schedule/algorithms/catalogue.h"

/* The table: where the blocks for each rank begin in IN and the end, then the same for OUT. */
static bool blocks_prepare(struct context *c)
{
    const int p = c->size;

    c->table = memory_get(sizeof *c->table * 2 * (size_t)(p + 1));
    if (c->table == NULL)
        return false;
    c->table[0] = c->table[p + 1] = 0;
    for (int i = 0; i < p; i++) {
        c->table[i + 1] = c->table[i] + c->problem->counts[i];
        c->table[p + 1 + i + 1] = c->table[p + 1 + i] + c->problem->remote_counts[i];
    }
    return true;
}

static void exchange(const struct context *c, int to, int from, struct round *out)
{
    const int64_t *const sends = c->table, *const receives = c->table + c->size + 1;

    emit_receive(out, from, BUFFER_OUT, receives[from], receives[from + 1] - receives[from]);
    emit_send(out, to, BUFFER_IN, sends[to], sends[to + 1] - sends[to]);
}

static void own_block(const struct context *c, struct round *out)
{
    const int64_t *const sends = c->table, *const receives = c->table + c->size + 1;

    const int64_t sent = sends[c->rank + 1] - sends[c->rank];
    const int64_t room = receives[c->rank + 1] - receives[c->rank]; /* less in a wrong program */

    emit_copy(out, BUFFER_OUT, receives[c->rank], BUFFER_IN, sends[c->rank],
              sent < room ? sent : room);
}

/* ---- simple */

static int64_t one(const struct context *c)
{
    (void)c;
    return 1;
}

static void simple_round(const struct context *c, int64_t r, struct round *out)
{
    (void)r;
    own_block(c, out);
    for (int i = 1; i < c->size; i++)
        exchange(c, modulo(c->rank + i, c->size), modulo(c->rank - i, c->size), out);
}

const struct algorithm algorithm_alltoallv_simple = {
    .operation = "alltoallv",
    .name = "simple",
    .cost = "(p-1)(alpha + m beta), one round",
    .source = "Faraj et al. 2008, Section 6",
    .prepare = blocks_prepare,
    .direct = true,
    .rounds = one,
    .round = simple_round,
};

/* ---- ring, and with one barrier; round 0 is between a rank and itself */

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

static void ring_one_barrier_round(const struct context *c, int64_t r, struct round *out)
{
    ring_round(c, r, out);
    if (r == 0)
        emit_barrier(out);
}

const struct algorithm algorithm_alltoallv_ring = {
    .operation = "alltoallv",
    .name = "ring",
    .cost = "(p-1)(alpha + m beta)",
    .source = "Faraj et al. 2008, Section 6",
    .prepare = blocks_prepare,
    .direct = true,
    .rounds = size_rounds,
    .round = ring_round,
};

const struct algorithm algorithm_alltoallv_ring_one_barrier = {
    .operation = "alltoallv",
    .name = "ring_one_barrier",
    .cost = "barrier + (p-1)(alpha + m beta)",
    .source = "Faraj et al. 2008, Section 7.1",
    .prepare = blocks_prepare,
    .direct = true,
    .rounds = size_rounds,
    .round = ring_one_barrier_round,
};

/* ---- with light barriers: rounds 2i - 1 are tokens, rounds 2i the messages of phase i
 *
 * A token goes with every phase, an empty one too: neither side would know of the phases that the
 * other one left out. */

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

const struct algorithm algorithm_alltoallv_ring_light_barrier = {
    .operation = "alltoallv",
    .name = "ring_light_barrier",
    .cost = "(p-1)(2 alpha + m beta)",
    .source = "Faraj et al. 2008, Section 7.1",
    .prepare = blocks_prepare,
    .direct = true,
    .rounds = light_rounds,
    .round = ring_light_barrier_round,
};
