/* Broadcast in which the rank that is expected to arrive last gets the message last.
 *
 * All ranks except L (the parameter `late`) broadcast over the circulant graph (bcast_circulant.c).
 * Then the rank after L, which has the message by then, sends it to L. In a tree all ranks below L
 * would wait for it. Here only one rank waits, and only if a send waits for its receive.
 *
 *         0   1   2   L   4     root 1:   circulant on 0, 1, 2, 4
 *                     <---+
 *
 * If L is the root, all ranks wait for it in any case. Then this is circulant on all ranks.
 */
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"

static const struct algorithm *const spreads = &algorithm_bcast_circulant;

static bool all_alike(const struct problem *p)
{
    return p->late == p->root;
}

/* Return the rank that sends to L: not the root, if there is another one. */
static int late_source(const struct context *c)
{
    const int next = late_next(c);

    return next == c->problem->root && c->size > 2 ? (next + 1) % c->size : next;
}

static bool bcast_prepare(struct context *c)
{
    struct others o;

    if (all_alike(c->problem))
        return spreads->prepare(c);
    if (late_here(c))
        return true;
    late_others(&o, c, spreads, c->problem->root);
    const bool had = spreads->prepare(&o.context);

    c->table = o.context.table;
    return had;
}

static int64_t bcast_spreading(const struct context *c)
{
    return all_alike(c->problem) ? spreads->rounds(c)
                                 : late_others_rounds(c, spreads, c->problem->root);
}

static int64_t bcast_rounds(const struct context *c)
{
    const bool takes_part = late_here(c) || c->rank == late_source(c);

    return bcast_spreading(c) + (takes_part && !all_alike(c->problem));
}

static void bcast_round(const struct context *c, int64_t r, struct round *out)
{
    if (all_alike(c->problem))
        spreads->round(c, r, out);
    else if (r < bcast_spreading(c))
        late_others_round(c, spreads, c->problem->root, r, out);
    else if (late_here(c))
        emit_receive(out, late_source(c), BUFFER_OUT, 0, c->problem->bytes);
    else
        emit_send(out, c->problem->late, BUFFER_OUT, 0, c->problem->bytes);
}

static int64_t bcast_blocks(const struct problem *p)
{
    struct problem others = *p;

    others.size -= !all_alike(p);
    return spreads->blocks(&others);
}

/* L delays no rounds except its own. */
static int64_t bcast_early(const struct context *c)
{
    (void)c;
    return 0;
}

ALGORITHM(
    bcast, late_last, .parameters = "block_size=BYTES late=RANK",
    .cost =
        "(n-1+ceil(lg(p-1)))(alpha + m/n beta) + alpha + m beta, n blocks, p > 2; the last message "
        "when `late` has come",
    .source = "Traeff 2024, arXiv 2407.18004", .applies = late_applies, .prepare = bcast_prepare,
    .rounds = bcast_rounds, .round = bcast_round, .early = bcast_early, .opening = bcast_rounds,
    .blocks = bcast_blocks);
