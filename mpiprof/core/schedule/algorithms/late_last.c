/* Collectives in which the rank that is expected to arrive last joins last.
 *
 * n: bytes of the message or vector; L: the rank of the parameter `late`.
 *
 *   bcast       All ranks except L broadcast over the circulant graph (bcast_circulant.c). Then the
 *               rank after L, which has the message by then, sends it to L. In a tree all ranks
 *               below L would wait for it. Here only one rank waits, and only if a send waits for
 *               its receive. If L is the root, all ranks wait for it in any case. Then this is
 *               circulant on all ranks.
 *
 *         0   1   2   L   4     root 1:   circulant on 0, 1, 2, 4
 *                     <---+
 *
 * Reductions: the other ranks reduce their vectors while they wait for L. S is their result, x the
 * vector of L.
 *
 *   reduce      The other ranks reduce S to the root, to which L sends x: one message after L's
 *               arrival. If L is the root, the rank after L has S and sends it to L.
 *
 *         0   1   2   L   4     root 1
 *             S<--+-------+     halving_doubling on the others
 *             S<------x         n, after L has come
 *
 *   allreduce   All other ranks have S. L broadcasts x in blocks over the circulant graph (see
 *               bcast_circulant.c). In each round each process sends and receives one block,
 *               except that none sends x to L. The process that would do so sends L a block of S
 *               instead. So all have x and S after b-1+ceil(lg p) rounds with b blocks, and each
 *               rank computes x op S.
 *
 *         p = 4, L = 3:   L --x0--> 0 --x0--> 1 ..
 *                         L <--S0-- 2
 *
 *               The number of blocks is no parameter: members with different sizes, which are an
 *               error, would otherwise exchange different numbers of messages, and hang.
 *
 * After L's arrival an allreduce takes n beta, compared with 2 n beta for halving and doubling. If
 * L is not late, the reduction of the other ranks is added. The operands are not in rank order, so
 * the operation must be commutative. All ranks compute the same result from the same S and x. The
 * idea to reduce available data before the late ranks arrive is from Proficz, Improving all-reduce
 * collective operations for imbalanced process arrival patterns, 2018.
 */
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"

enum { REDUCTION, BROADCAST }; /* modes */

/* ---- the schedule of the other ranks: an algorithm for one process fewer */

struct others { /* the problem without the late rank, from the view of one other rank */
    struct problem problem;
    struct context context;
};

static bool late_here(const struct context *c)
{
    return c->rank == c->problem->late;
}

static bool late_applies(const struct problem *p)
{
    return p->late >= 0 && p->late < p->size;
}

/* Return the rank that the others leave out, or p if a late root takes part with them. */
static int left_out(const struct context *c)
{
    const bool from_late = c->algorithm->mode == BROADCAST && c->problem->root == c->problem->late;

    return from_late ? c->size : c->problem->late;
}

static int number_among_others(const struct context *c, int rank)
{
    return rank - (rank > left_out(c));
}

static void others_fill(struct others *o, const struct context *c, const struct algorithm *a,
                        int root)
{
    o->problem = *c->problem;
    o->problem.size -= left_out(c) < c->size;
    o->problem.root = number_among_others(c, root);
    o->problem.nodes = NULL;
    o->context = (struct context){.problem = &o->problem,
                                  .algorithm = a,
                                  .rank = number_among_others(c, c->rank),
                                  .size = o->problem.size,
                                  .table = c->table};
}

/* Emit round r of the other ranks' algorithm, with the ranks of the whole communicator. */
static void others_round(const struct context *c, const struct algorithm *a, int root, int64_t r,
                         struct round *out)
{
    struct others o;

    others_fill(&o, c, a, root);
    a->round(&o.context, r, out);
    for (int i = 0; i < out->count; i++)
        if (out->steps[i].kind == STEP_SEND || out->steps[i].kind == STEP_RECEIVE)
            out->steps[i].peer += out->steps[i].peer >= left_out(c);
}

static int64_t others_rounds(const struct context *c, const struct algorithm *a, int root)
{
    struct others o;

    if (c->rank == left_out(c))
        return 0;
    others_fill(&o, c, a, root);
    return a->rounds(&o.context);
}

/* ---- bcast */

static const struct algorithm *const spreading = &algorithm_bcast_circulant;

/* Return the rank that sends to L: not the root, if there is another one. */
static int source_of_late(const struct context *c)
{
    const int next = (c->problem->late + 1) % c->size;

    return next == c->problem->root && c->size > 2 ? (next + 1) % c->size : next;
}

static bool bcast_prepare(struct context *c)
{
    struct others o;

    if (c->rank == left_out(c))
        return true;
    others_fill(&o, c, spreading, c->problem->root);
    const bool is_prepared = spreading->prepare(&o.context);

    c->table = o.context.table;
    return is_prepared;
}

static int64_t bcast_spreading_rounds(const struct context *c)
{
    return others_rounds(c, spreading, c->problem->root);
}

static int64_t bcast_rounds(const struct context *c)
{
    const bool sends_late = late_here(c) || c->rank == source_of_late(c);

    return bcast_spreading_rounds(c) + (sends_late && left_out(c) < c->size);
}

static void bcast_round(const struct context *c, int64_t r, struct round *out)
{
    if (r < bcast_spreading_rounds(c))
        others_round(c, spreading, c->problem->root, r, out);
    else if (late_here(c))
        emit_receive(out, source_of_late(c), BUFFER_OUT, 0, c->problem->bytes);
    else
        emit_send(out, c->problem->late, BUFFER_OUT, 0, c->problem->bytes);
}

static int64_t bcast_blocks(const struct problem *p)
{
    struct problem others = *p;

    others.size -= p->late != p->root;
    return spreading->blocks(&others);
}

/* L delays no rounds except its own. */
static int64_t bcast_early(const struct context *c)
{
    (void)c;
    return 0;
}

ALGORITHM(
    bcast, late_last, .mode = BROADCAST, .parameters = "block_size=BYTES late=RANK",
    .cost =
        "(n-1+ceil(lg(p-1)))(alpha + m/n beta) + alpha + m beta, n blocks, p > 2; the last message "
        "when `late` has come",
    .source = "Traeff 2024, arXiv 2407.18004", .applies = late_applies, .prepare = bcast_prepare,
    .rounds = bcast_rounds, .round = bcast_round, .early = bcast_early, .opening = bcast_rounds,
    .blocks = bcast_blocks);

/* ---- reduce */

static const struct algorithm *const reducing = &algorithm_reduce_halving_doubling;

/* Return the rank that has S. */
static int holder(const struct context *c)
{
    const int root = c->problem->root, late = c->problem->late;

    return late != root ? root : (late + 1) % c->size;
}

static int64_t reduce_early(const struct context *c)
{
    return others_rounds(c, reducing, holder(c));
}

static int64_t reduce_rounds(const struct context *c)
{
    return reduce_early(c) + 1 + (c->rank == c->problem->root);
}

static int64_t early_scratch(const struct problem *p)
{
    struct problem others = *p;

    others.size = p->size > 1 ? p->size - 1 : 1;
    return reducing->scratch(&others);
}

/* A holder that is not the root has no OUT, so S is stored behind the reduction's scratch
 * memory. */
static int64_t reduce_scratch(const struct problem *p)
{
    return early_scratch(p) + p->bytes;
}

static void store_in_scratch(const struct context *c, struct round *out)
{
    const int64_t behind = early_scratch(c->problem);

    for (int i = 0; i < out->count; i++) {
        struct step *const s = &out->steps[i];

        if (s->buffer == BUFFER_OUT) {
            s->buffer = BUFFER_SCRATCH;
            s->offset += behind;
        }
        if ((s->kind == STEP_COPY || s->kind == STEP_REDUCE) && s->source == BUFFER_OUT) {
            s->source = BUFFER_SCRATCH;
            s->source_offset += behind;
        }
    }
}

static void reduce_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t early = reduce_early(c), n = c->problem->bytes;
    const bool root = c->rank == c->problem->root, late = late_here(c);

    if (r < early) {
        others_round(c, reducing, holder(c), r, out);
        if (c->rank == holder(c) && !root)
            store_in_scratch(c, out);
        return;
    }
    if (r == early && root) {
        if (late)
            emit_copy(out, BUFFER_OUT, 0, BUFFER_IN, 0, n);
        if (c->size > 1)
            emit_receive(out, late ? holder(c) : c->problem->late, BUFFER_SCRATCH, 0, n);
    } else if (r == early && late) {
        emit_send(out, c->problem->root, BUFFER_IN, 0, n);
    } else if (r == early && c->rank == holder(c)) {
        emit_send(out, c->problem->root, BUFFER_SCRATCH, early_scratch(c->problem), n);
    } else if (r > early && c->size > 1) {
        emit_reduce(out, BUFFER_OUT, 0, BUFFER_SCRATCH, 0, n, late);
    }
}

#define LATE_LAST                                                                                  \
    .restrictions = "a commutative operation", .parameters = "late=RANK", .applies = late_applies

ALGORITHM(reduce, late_last, LATE_LAST,
          .cost = "halving_doubling of p-1, then, when `late` has come, alpha + n beta + n gamma",
          .source = "after Proficz 2018 (doi 10.1007/s11227-018-2356-z)", .rounds = reduce_rounds,
          .scratch = reduce_scratch, .round = reduce_round, .early = reduce_early);

/* ---- allreduce */

/* b = 4 ceil(lg p): the first block takes ceil(lg p) rounds, a quarter of b. */
enum { BLOCKS_A_LEVEL = 4 };

static const struct algorithm *const sharing = &algorithm_allreduce_halving_doubling;

static bool spreading_prepare(struct context *c)
{
    return circulant_allocate(c, modulo((int64_t)c->rank - c->problem->late, c->size),
                              (int64_t)BLOCKS_A_LEVEL * log2_ceiling(c->size));
}

static int64_t allreduce_early(const struct context *c)
{
    return others_rounds(c, sharing, 0);
}

static int64_t allreduce_rounds(const struct context *c)
{
    return allreduce_early(c) + circulant_rounds(c) + 1;
}

/* Return the part of the vector in a block. */
static struct range block_of(const struct context *c, int64_t block)
{
    const struct problem *const p = c->problem;

    return parts_range(p->bytes, p->unit, circulant_of(c)->blocks, block, block + 1);
}

/* Compute x op S for a block. SCRATCH contains x, on L it contains S. */
static void join(const struct context *c, int64_t block, struct round *out)
{
    const struct range part = block_of(c, block);

    emit_reduce(out, BUFFER_OUT, part.begin, BUFFER_SCRATCH, part.begin, part.length, late_here(c));
}

/* Before round r of the broadcast, combine the block of round r-1. With MPI_IN_PLACE x is in OUT,
 * and its last block is sent until the end, so L combines this block last. */
static void join_arrived(const struct context *c, int64_t r, struct round *out)
{
    const struct circulant *const s = circulant_of(c);
    const bool ends = r == circulant_rounds(c);

    if (late_here(c)) {
        if (r == 0)
            emit_copy(out, BUFFER_OUT, 0, BUFFER_IN, 0, c->problem->bytes);
        if (r > 0 && r < s->blocks)
            join(c, r - 1, out);
        if (r > 0 && ends)
            join(c, s->blocks - 1, out);
    } else if (r > 0) {
        const int64_t got = circulant_at(s, r - 1).gets;

        if (got >= 0)
            join(c, got, out);
    }
}

/* Block r of S is sent to L in round r, when block r of x has not arrived on any rank. */
static void allreduce_round(const struct context *c, int64_t r, struct round *out)
{
    const struct circulant *const s = circulant_of(c);
    const int64_t early = allreduce_early(c), t = r - early;

    if (t < 0) {
        others_round(c, sharing, 0, r, out);
        return;
    }
    join_arrived(c, t, out);
    if (t == circulant_rounds(c))
        return;
    const struct circulant_round now = circulant_at(s, t);
    const int from = modulo(now.from + c->problem->late, c->size);
    const int to = modulo(now.to + c->problem->late, c->size);

    if (now.gets >= 0)
        emit_message(out, STEP_RECEIVE, from, BUFFER_SCRATCH, block_of(c, now.gets));
    else if (late_here(c) && t < s->blocks)
        emit_message(out, STEP_RECEIVE, from, BUFFER_SCRATCH, block_of(c, t));
    if (now.gives >= 0)
        emit_message(out, STEP_SEND, to, late_here(c) ? BUFFER_IN : BUFFER_SCRATCH,
                     block_of(c, now.gives));
    else if (now.to == 0 && t < s->blocks)
        emit_message(out, STEP_SEND, to, BUFFER_OUT, block_of(c, t));
}

ALGORITHM(
    allreduce, late_last, LATE_LAST,
    .cost = "halving_doubling of p-1, then, when `late` has come, (5 ceil(lg p) - 1)(alpha + "
            "n (beta + gamma) / (4 ceil(lg p)))",
    .source = "after Proficz 2018 (doi 10.1007/s11227-018-2356-z); Traeff 2024, arXiv 2407.18004",
    .prepare = spreading_prepare, .rounds = allreduce_rounds, .scratch = scratch_whole,
    .round = allreduce_round, .early = allreduce_early);
