/* Allgather and allgatherv on an inter-communicator by root gathering, as in MPI libraries.
 *
 *      a0 <- a1 a2 a3    each group collects its blocks at its root by a binomial tree
 *      a0 <-> b0         the roots exchange them
 *      a0 -> a1 a2 a3    and broadcast the received data: binomial scatter, ring allgather
 *
 *   root_gathering_sequential   as MPICH: a0's data goes to b0 and through group B, then b0's to a0
 *                               and through A: max((p-1) k_A, (q-1) k_B) + 3 p k_A + 3 q k_B
 *   root_gathering_concurrent   as Open MPI: both ways at once:
 *                               max((p-1) k_A, (q-1) k_B) + 3 max(p k_A, q k_B)
 *
 * Source: Kang et al. 2019, Section 3.1; formula (2) is the first of these bounds. The bounds are
 * for many processes. There are no restrictions; allgatherv needs the counts of the local group.
 */
#include "schedule/algorithms/intergroup.h"

#include "base/base.h"
#include "schedule/algorithms/catalogue.h"

/* ---- shared with the other algorithms */

bool intergroup_prepare(struct context *c, int64_t more)
{
    const struct problem *const p = c->problem;
    int64_t *const own =
        memory_allocate(sizeof *own * (size_t)(c->size + p->remote_size + 2 + more));

    if (own == NULL)
        return false;
    c->table = own;
    own[0] = 0;
    for (int i = 0; i < c->size; i++)
        own[i + 1] = own[i] + (p->counts != NULL ? p->counts[i] : p->bytes);
    int64_t *const remote = own + c->size + 1;

    remote[0] = 0;
    for (int i = 0; i < p->remote_size; i++)
        remote[i + 1] =
            remote[i] + (p->remote_counts != NULL ? p->remote_counts[i] : p->remote_bytes);
    return true;
}

void circle_round(const struct context *c, const struct circle *w, int64_t r, struct round *out)
{
    const struct piece sent = w->piece(c, modulo(w->place - r, w->size));
    const struct piece got = w->piece(c, modulo(w->place - r - 1, w->size));

    emit_receive(out, w->process(c, modulo(w->place - 1, w->size)), BUFFER_OUT, got.begin,
                 got.length);
    emit_send(out, w->process(c, modulo(w->place + 1, w->size)), BUFFER_OUT, sent.begin,
              sent.length);
}

int circle_rank(const struct context *c, int place)
{
    (void)c;
    return place;
}

/* ---- trees with root rank 0. The subtree of x is x .. x + 2^k - 1, with 2^k its lowest set
 * bit. */

static int64_t subtree_end(const struct context *c, int64_t x)
{
    const int64_t end = x == 0 ? c->size : x + (x & -x);

    return end < c->size ? end : c->size;
}

static bool has_children(const struct context *c)
{
    return c->rank % 2 == 0 && c->rank + 1 < c->size;
}

static int64_t total_bytes(const int64_t *counts, int size, int64_t each)
{
    int64_t all = counts != NULL ? 0 : size * each;

    for (int i = 0; counts != NULL && i < size; i++)
        all += counts[i];
    return all;
}

/* Return the memory for the root of a group, which collects all blocks. */
static int64_t roots_scratch(const struct problem *p)
{
    const int64_t own = total_bytes(p->counts, p->size, p->bytes);
    const int64_t remote = total_bytes(p->remote_counts, p->remote_size, p->remote_bytes);

    return own > remote ? own : remote;
}

/* Collect the subtrees' blocks in SCRATCH. A rank without children sends from IN. */
static void gather_step(const struct context *c, int64_t k, struct round *out)
{
    const int64_t *const begins = own_begins(c), x = c->rank, bit = INT64_C(1) << k;

    if (k == 0 && has_children(c))
        emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, 0, own_length(c));
    if (x % (2 * bit) == bit)
        emit_send(out, (int)(x - bit), has_children(c) ? BUFFER_SCRATCH : BUFFER_IN, 0,
                  begins[subtree_end(c, x)] - begins[x]);
    else if (x % (2 * bit) == 0 && x + bit < c->size)
        emit_receive(out, (int)(x + bit), BUFFER_SCRATCH, begins[x + bit] - begins[x],
                     begins[subtree_end(c, x + bit)] - begins[x + bit]);
}

static int64_t share_begin(const struct context *c, int64_t i)
{
    return part_begin(remote_total(c), 1, c->size, i);
}

static void scatter_step(const struct context *c, int64_t k, struct round *out)
{
    const int64_t x = c->rank, bit = INT64_C(1) << k;

    if (x % (2 * bit) == bit)
        emit_receive(out, (int)(x - bit), BUFFER_OUT, share_begin(c, x),
                     share_begin(c, subtree_end(c, x)) - share_begin(c, x));
    else if (x % (2 * bit) == 0 && x + bit < c->size)
        emit_send(out, (int)(x + bit), BUFFER_OUT, share_begin(c, x + bit),
                  share_begin(c, subtree_end(c, x + bit)) - share_begin(c, x + bit));
}

/* Emit a step of a ring that omits the parts which the receiver has from the scatter. */
static void share_step(const struct context *c, int64_t r, struct round *out)
{
    const int next = modulo(c->rank + 1, c->size), before = modulo(c->rank - 1, c->size);
    const int sent = modulo(c->rank - r, c->size), got = modulo(before - r, c->size);

    if (got < c->rank || got >= subtree_end(c, c->rank))
        emit_receive(out, before, BUFFER_OUT, share_begin(c, got),
                     share_begin(c, got + 1) - share_begin(c, got));
    if (sent < next || sent >= subtree_end(c, next))
        emit_send(out, next, BUFFER_OUT, share_begin(c, sent),
                  share_begin(c, sent + 1) - share_begin(c, sent));
}

static int64_t bcast_rounds(const struct context *c)
{
    return log2_ceiling(c->size) + c->size - 1;
}

static void bcast_step(const struct context *c, int64_t r, struct round *out)
{
    const int depth = log2_ceiling(c->size);

    if (r < depth)
        scatter_step(c, depth - 1 - r, out);
    else
        share_step(c, r - depth, out);
}

/* ---- the two algorithms */

static void root_sends(const struct context *c, struct round *out)
{
    if (c->rank == 0)
        emit_remote_send(out, 0, has_children(c) ? BUFFER_SCRATCH : BUFFER_IN, 0,
                         own_begins(c)[c->size]);
}

static void root_receives(const struct context *c, struct round *out)
{
    if (c->rank == 0)
        emit_remote_receive(out, 0, BUFFER_OUT, 0, remote_total(c));
}

static int64_t sequential_rounds(const struct context *c)
{
    return log2_ceiling(c->size) + 2 + bcast_rounds(c);
}

/* First group: send, receive, broadcast. Second group: receive, broadcast, send. */
static void sequential_round(const struct context *c, int64_t r, struct round *out)
{
    const int depth = log2_ceiling(c->size);
    const int64_t before = c->problem->first_group ? 2 : 1, turn = r - depth;

    if (turn < 0)
        gather_step(c, r, out);
    else if (turn == before - 1)
        root_receives(c, out);
    else if (turn >= before && turn < before + bcast_rounds(c))
        bcast_step(c, turn - before, out);
    else
        root_sends(c, out);
}

static int64_t concurrent_rounds(const struct context *c)
{
    return log2_ceiling(c->size) + 1 + bcast_rounds(c);
}

static void concurrent_round(const struct context *c, int64_t r, struct round *out)
{
    const int depth = log2_ceiling(c->size);

    if (r < depth) {
        gather_step(c, r, out);
    } else if (r == depth) {
        root_receives(c, out);
        root_sends(c, out);
    } else {
        bcast_step(c, r - depth - 1, out);
    }
}

static bool roots_prepare(struct context *c)
{
    return intergroup_prepare(c, 0);
}

const struct algorithm algorithm_inter_allgather_root_gathering_sequential = {
    .operation = "allgather",
    .name = "root_gathering_sequential",
    .inter = true,
    .cost = "(max((p-1) k_A, (q-1) k_B) + 3 p k_A + 3 q k_B) beta",
    .source = "Kang et al. 2019, Section 3.1; MPICH",
    .prepare = roots_prepare,
    .rounds = sequential_rounds,
    .scratch = roots_scratch,
    .round = sequential_round,
};

const struct algorithm algorithm_inter_allgather_root_gathering_concurrent = {
    .operation = "allgather",
    .name = "root_gathering_concurrent",
    .inter = true,
    .cost = "(max((p-1) k_A, (q-1) k_B) + 3 max(p k_A, q k_B)) beta",
    .source = "Kang et al. 2019, Section 3.1; Open MPI",
    .prepare = roots_prepare,
    .rounds = concurrent_rounds,
    .scratch = roots_scratch,
    .round = concurrent_round,
};

const struct algorithm algorithm_inter_allgatherv_root_gathering_sequential = {
    .operation = "allgatherv",
    .name = "root_gathering_sequential",
    .inter = true,
    .needs_counts = true,
    .cost = "(max(K_A - k_A0, K_B - k_B0) + 3 K_A + 3 K_B) beta, K: a group's bytes",
    .source = "Kang et al. 2019, Section 3.1; MPICH",
    .prepare = roots_prepare,
    .rounds = sequential_rounds,
    .scratch = roots_scratch,
    .round = sequential_round,
};

const struct algorithm algorithm_inter_allgatherv_root_gathering_concurrent = {
    .operation = "allgatherv",
    .name = "root_gathering_concurrent",
    .inter = true,
    .needs_counts = true,
    .cost = "(max(K_A - k_A0, K_B - k_B0) + 3 max(K_A, K_B)) beta, K: a group's bytes",
    .source = "Kang et al. 2019, Section 3.1; Open MPI",
    .prepare = roots_prepare,
    .rounds = concurrent_rounds,
    .scratch = roots_scratch,
    .round = concurrent_round,
};
