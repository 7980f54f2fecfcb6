/* Barrier: no rank leaves before the last one has arrived. All messages are tokens.
 *
 * Source: Hensgen, Finkel and Manber 1988; Mellor-Crummey and Scott 1991.
 *
 *   linear         all ranks send to rank 0, which answers all    2 (p-1) alpha
 *   tournament     round k: the loser sends to the winner, 2^k    2 ceil(lg p) alpha
 *                  lower; then the winners wake the losers
 *   dissemination  round k: send to rank+2^k, receive from        ceil(lg p) alpha
 *                  rank-2^k
 */
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/reductions.h"

static int64_t two_rounds(const struct context *c)
{
    return c->size > 1 ? 2 : 0;
}

static void linear_round(const struct context *c, int64_t r, struct round *out)
{
    const int others = c->rank == 0 ? c->size - 1 : 1;

    for (int i = 1; i <= others; i++)
        emit_token(out, (c->rank == 0) == (r == 0) ? STEP_RECEIVE : STEP_SEND,
                   c->rank == 0 ? i : 0);
}

ALGORITHM(barrier, linear, .cost = "2 (p-1) alpha", .source = "folklore", .rounds = two_rounds,
          .round = linear_round);

static void dissemination_round(const struct context *c, int64_t r, struct round *out)
{
    emit_token(out, STEP_RECEIVE, modulo(c->rank - (INT64_C(1) << r), c->size));
    emit_token(out, STEP_SEND, modulo(c->rank + (INT64_C(1) << r), c->size));
}

ALGORITHM(barrier, dissemination, .cost = "ceil(lg p) alpha",
          .source = "Hensgen, Finkel and Manber 1988", .rounds = rounds_tree,
          .round = dissemination_round);

static void tournament_round(const struct context *c, int64_t r, struct round *out)
{
    const struct move m = tree_move(c, r);

    if (m.to >= 0)
        emit_token(out, STEP_SEND, m.to);
    if (m.from >= 0)
        emit_token(out, STEP_RECEIVE, m.from);
}

ALGORITHM(barrier, tournament, .cost = "2 ceil(lg p) alpha",
          .source = "Hensgen, Finkel and Manber 1988", .rounds = rounds_two_trees,
          .round = tournament_round);
