/* Allgather and allgatherv on an inter-communicator by root gathering, as in MPI libraries.
 *
 *      a0 <- a1 a2 a3    each group collects its blocks at its root
 *      a0 <-> b0         the roots exchange them
 *      a0 -> a1 a2 a3    and broadcast the received data in their group
 *
 *   root_gathering_sequential   as MPICH: a0's data goes to b0 and through group B, then b0's to a0
 *                               and through A: max((p-1) k_A, (q-1) k_B) + 3 p k_A + 3 q k_B
 *   root_gathering_concurrent   as Open MPI: both ways at once:
 *                               max((p-1) k_A, (q-1) k_B) + 3 max(p k_A, q k_B)
 *   root_gathering_best         both ways at once, with the fastest known broadcast:
 *                               max((p-1) k_A, (q-1) k_B) + 2 max(p k_A, q k_B)
 *   root_gathering_ring         allgatherv as the paper describes MPICH's: as the first, but each
 *                               group collects its messages along the ranks, a3 -> a2 -> a1 -> a0.
 *                               They go in blocks of at most B bytes, so that the gather takes
 *                               little more than its lower bound, as the paper states. Whole
 *                               messages would take the sum of max(k_i, .., k_(p-1)) over i > 0.
 *
 * The gather uses a binomial tree, except in the last one. Broadcasts are a binomial scatter and a
 * ring allgather, which send everything twice; the best one is over a circulant graph in many
 * blocks, which send everything once.
 *
 * Source: Kang et al. 2019, Sections 3.1 and 5; formula (2) is the first of these bounds, and
 * formula (1) the third. The bounds are for many processes. There are no restrictions; allgatherv
 * needs the counts of the local group.
 */
#include "schedule/algorithms/intergroup.h"

#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/tree.h"

enum { SEQUENTIAL, CONCURRENT, BEST, RING }; /* modes */

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
static void tree_step(const struct context *c, int64_t k, struct round *out)
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

/* ---- gather to rank 0 along the ranks, in blocks: own ones first, then those of the next ranks */

static struct range own_piece(const struct context *c, int i)
{
    return range_at(own_begins(c), i);
}

static struct pieces chain_pieces(const struct context *c)
{
    return (struct pieces){intergroup_more(c), {c->size, c->rank, NULL, own_piece}};
}

static void chain_step(const struct context *c, int64_t r, struct round *out)
{
    const struct pieces pieces = chain_pieces(c);
    const int64_t x = c->rank, begin = own_begins(c)[x];
    const struct range sent = pieces_chain_block(&pieces, c, x, r);
    const struct range received = pieces_chain_block(&pieces, c, x + 1, r);
    const enum buffer buffer = sent.begin < own_begins(c)[x + 1] ? BUFFER_IN : BUFFER_SCRATCH;

    if (r == 0 && has_children(c) && x == 0)
        emit_copy(out, BUFFER_SCRATCH, 0, BUFFER_IN, 0, block_range(c, 0).length);
    if (x > 0)
        emit_send(out, (int)x - 1, buffer, sent.begin - begin, sent.length);
    emit_receive(out, (int)x + 1, BUFFER_SCRATCH, received.begin - begin, received.length);
}

static int64_t gather_rounds(const struct context *c)
{
    const struct pieces pieces = chain_pieces(c);

    return c->algorithm->mode == RING ? pieces_chain_rounds(&pieces) : log2_ceiling(c->size);
}

/* ---- broadcast of the received data from rank 0 in the local group */

struct spread {
    struct problem problem;
    struct context context;
};

static const struct algorithm *spread_algorithm(const struct context *c)
{
    return c->algorithm->mode == BEST ? &algorithm_bcast_circulant
                                      : &algorithm_bcast_scatter_allgather_ring;
}

static void spread_fill(struct spread *s, const struct context *c)
{
    s->problem = (struct problem){.size = c->size,
                                  .bytes = remote_total(c),
                                  .alpha = c->problem->alpha,
                                  .beta = c->problem->beta};
    s->context = (struct context){.problem = &s->problem,
                                  .algorithm = spread_algorithm(c),
                                  .rank = c->rank,
                                  .size = c->size,
                                  .table = c->algorithm->mode == BEST ? intergroup_more(c) : NULL};
}

static int64_t spread_rounds(const struct context *c)
{
    struct spread s;

    spread_fill(&s, c);
    return s.context.algorithm->rounds(&s.context);
}

static void spread_round(const struct context *c, int64_t r, struct round *out)
{
    struct spread s;

    spread_fill(&s, c);
    s.context.algorithm->round(&s.context, r, out);
}

/* ---- the algorithms */

/* Store the broadcast's schedule behind the begins of the blocks. */
static bool best_prepare(struct context *c)
{
    struct spread s;

    if (!intergroup_prepare_more(c, sizeof(struct circulant) / sizeof *c->table + 1))
        return false;
    spread_fill(&s, c);
    circulant_fill((struct circulant *)intergroup_more(c), c->size, c->rank,
                   s.context.algorithm->blocks(&s.problem));
    return true;
}

static bool ring_prepare(struct context *c)
{
    if (!intergroup_prepare_more(c, c->size + 1))
        return false;
    const struct pieces pieces = chain_pieces(c);

    return pieces_prepare(&pieces, c);
}

static bool in_sequence(const struct context *c)
{
    return c->algorithm->mode == SEQUENTIAL || c->algorithm->mode == RING;
}

static int64_t roots_rounds(const struct context *c)
{
    return gather_rounds(c) + (in_sequence(c) ? 2 : 1) + spread_rounds(c);
}

/* The roots exchange their data after the gather. If they do so one after the other, the first
 * group sends, receives and broadcasts, and the second one receives, broadcasts and sends. */
static void roots_round(const struct context *c, int64_t r, struct round *out)
{
    const bool sequential = in_sequence(c), first = c->problem->first_group;
    const int64_t t = r - gather_rounds(c), receives = sequential && first;
    const int64_t sends = sequential && !first ? 1 + spread_rounds(c) : 0;
    const enum buffer gathered = has_children(c) ? BUFFER_SCRATCH : BUFFER_IN;

    if (t < 0 && c->algorithm->mode == RING)
        chain_step(c, r, out);
    else if (t < 0)
        tree_step(c, r, out);
    if (t == receives && c->rank == 0)
        emit_remote(out, STEP_RECEIVE, 0, BUFFER_OUT, (struct range){0, remote_total(c)});
    if (t == sends && c->rank == 0)
        emit_remote(out, STEP_SEND, 0, gathered, (struct range){0, own_begins(c)[c->size]});
    if (t > receives && t != sends)
        spread_round(c, t - receives - 1, out);
}

#define ROOT_GATHERING(mode_, prepare_, library)                                                   \
    .mode = mode_, .source = "Kang et al. 2019, Section " library, .prepare = prepare_,            \
    .rounds = roots_rounds, .scratch = roots_scratch, .round = roots_round
#define AS_MPICH ROOT_GATHERING(SEQUENTIAL, intergroup_prepare, "3.1; MPICH")
#define AS_OPEN_MPI ROOT_GATHERING(CONCURRENT, intergroup_prepare, "3.1; Open MPI")
#define AS_FORMULA_1 ROOT_GATHERING(BEST, best_prepare, "3.1, formula (1)")

INTER_ALGORITHM(allgather, root_gathering_sequential, AS_MPICH,
                .cost = "(max((p-1) k_A, (q-1) k_B) + 3 p k_A + 3 q k_B) beta");

INTER_ALGORITHM(allgather, root_gathering_concurrent, AS_OPEN_MPI,
                .cost = "(max((p-1) k_A, (q-1) k_B) + 3 max(p k_A, q k_B)) beta");

INTER_ALGORITHM(allgather, root_gathering_best, AS_FORMULA_1,
                .cost = "(max((p-1) k_A, (q-1) k_B) + 2 max(p k_A, q k_B)) beta for many blocks");

INTER_ALGORITHM(allgatherv, root_gathering_sequential, .needs_counts = true, AS_MPICH,
                .cost = "(max(K_A - k_A0, K_B - k_B0) + 3 K_A + 3 K_B) beta, K: a group's bytes");

INTER_ALGORITHM(allgatherv, root_gathering_concurrent, .needs_counts = true, AS_OPEN_MPI,
                .cost = "(max(K_A - k_A0, K_B - k_B0) + 3 max(K_A, K_B)) beta, K: a group's bytes");

INTER_ALGORITHM(allgatherv, root_gathering_ring, .needs_counts = true,
                ROOT_GATHERING(RING, ring_prepare, "5"),
                .cost = "(max(K_A - k_A0, K_B - k_B0) + 3 K_A + 3 K_B) beta for small blocks, K: a "
                        "group's bytes");

INTER_ALGORITHM(allgatherv, root_gathering_best, .needs_counts = true, AS_FORMULA_1,
                .cost = "(max(K_A - k_A0, K_B - k_B0) + 2 max(K_A, K_B)) beta for many blocks, "
                        "K: a group's bytes");
