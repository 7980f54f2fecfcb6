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

#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/tree.h"

/* ---- shared with the other algorithms */

bool intergroup_prepare_more(struct context *c, int64_t more)
{
    const struct problem *const p = c->problem;

    if (!table_allocate(c, c->size + p->remote_size + 2 + more))
        return false;
    begins_fill(begins_fill(c->table, c->size, p->counts, p->bytes), p->remote_size,
                p->remote_counts, p->remote_bytes);
    return true;
}

bool intergroup_prepare(struct context *c)
{
    return intergroup_prepare_more(c, 0);
}

/* ---- gather to rank 0 over a binomial tree (tree.h) */

static bool has_children(const struct context *c)
{
    return c->rank % 2 == 0 && c->rank + 1 < c->size;
}

/* Return the blocks of the subtree of rank x. */
static struct range subtree_range(const struct context *c, int64_t x)
{
    return blocks_range(own_begins(c), x, x + subtree_size(c, x));
}

/* Return the memory for the root of a group, which collects all blocks. */
static int64_t roots_scratch(const struct problem *p)
{
    const int64_t own = counts_sum(p->size, p->counts, p->bytes);
    const int64_t remote = counts_sum(p->remote_size, p->remote_counts, p->remote_bytes);

    return own > remote ? own : remote;
}

/* Collect the subtrees' blocks in SCRATCH. A rank without children sends from IN. */
static void gather_step(const struct context *c, int64_t k, struct round *out)
{
    const int64_t x = c->rank, bit = INT64_C(1) << k;

    if (k == 0 && has_children(c))
        emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, 0, block_range(c, c->rank).length);
    if (x % (2 * bit) == bit)
        emit_send(out, (int)(x - bit), has_children(c) ? BUFFER_SCRATCH : BUFFER_IN, 0,
                  subtree_range(c, x).length);
    else if (x % (2 * bit) == 0 && x + bit < c->size)
        emit_receive(out, (int)(x + bit), BUFFER_SCRATCH, own_begins(c)[x + bit] - own_begins(c)[x],
                     subtree_range(c, x + bit).length);
}

/* ---- broadcast of the received data from rank 0 in the local group */

static const struct algorithm *const spreads = &algorithm_bcast_scatter_allgather_ring;

static void bcast_step(const struct context *c, int64_t r, struct round *out)
{
    const struct problem received = {.size = c->size, .bytes = remote_total(c)};
    const struct context local = {
        .problem = &received, .algorithm = spreads, .rank = c->rank, .size = c->size};

    spreads->round(&local, r, out);
}

/* ---- the two algorithms */

enum { SEQUENTIAL, CONCURRENT }; /* modes */

static int64_t roots_rounds(const struct context *c)
{
    const int exchange = c->algorithm->mode == CONCURRENT ? 1 : 2;

    return log2_ceiling(c->size) + exchange + spreads->rounds(c);
}

/* The roots exchange their data after the gather. If they do so one after the other, the first
 * group sends, receives and broadcasts, and the second one receives, broadcasts and sends. */
static void roots_round(const struct context *c, int64_t r, struct round *out)
{
    const bool sequential = c->algorithm->mode == SEQUENTIAL, first = c->problem->first_group;
    const int64_t t = r - log2_ceiling(c->size), receives = sequential && first;
    const int64_t sends = sequential && !first ? 1 + spreads->rounds(c) : 0;
    const enum buffer gathered = has_children(c) ? BUFFER_SCRATCH : BUFFER_IN;

    if (t < 0)
        gather_step(c, r, out);
    if (t == receives && c->rank == 0)
        emit_remote(out, STEP_RECEIVE, 0, BUFFER_OUT, (struct range){0, remote_total(c)});
    if (t == sends && c->rank == 0)
        emit_remote(out, STEP_SEND, 0, gathered, (struct range){0, own_begins(c)[c->size]});
    if (t > receives && t != sends)
        bcast_step(c, t - receives - 1, out);
}

#define ROOT_GATHERING(mode_, library)                                                             \
    .mode = mode_, .source = "Kang et al. 2019, Section 3.1; " library,                            \
    .prepare = intergroup_prepare, .rounds = roots_rounds, .scratch = roots_scratch,               \
    .round = roots_round

INTER_ALGORITHM(allgather, root_gathering_sequential, ROOT_GATHERING(SEQUENTIAL, "MPICH"),
                .cost = "(max((p-1) k_A, (q-1) k_B) + 3 p k_A + 3 q k_B) beta");

INTER_ALGORITHM(allgather, root_gathering_concurrent, ROOT_GATHERING(CONCURRENT, "Open MPI"),
                .cost = "(max((p-1) k_A, (q-1) k_B) + 3 max(p k_A, q k_B)) beta");

INTER_ALGORITHM(allgatherv, root_gathering_sequential, .needs_counts = true,
                ROOT_GATHERING(SEQUENTIAL, "MPICH"),
                .cost = "(max(K_A - k_A0, K_B - k_B0) + 3 K_A + 3 K_B) beta, K: a group's bytes");

INTER_ALGORITHM(allgatherv, root_gathering_concurrent, .needs_counts = true,
                ROOT_GATHERING(CONCURRENT, "Open MPI"),
                .cost = "(max(K_A - k_A0, K_B - k_B0) + 3 max(K_A, K_B)) beta, K: a group's bytes");
