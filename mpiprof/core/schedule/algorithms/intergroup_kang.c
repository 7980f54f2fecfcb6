/* Allgather on an inter-communicator in nearly optimal time: all processes send across at once.
 *
 * Group A has P processes with k_A bytes each, group B has Q <= P with k_B. Rank j of B has a team
 * of consecutive ranks of A. P = 6, Q = 2:
 *
 *      a0 a1 a2 | a3 a4 a5       b0, b1 exchange with their team, one member per round
 *         b0    |    b1
 *
 *   kang              Algorithm 1: b_j splits its message into one segment for each member of its
 *                     team, and receives their messages. Then A has B's data in rank order, one
 *                     segment per process, and B has A's data. A ring in each group shares them.
 *                     At most (max(P k_A, Q k_B) + k_B) beta: optimal up to k_B (Theorem 1).
 *                     If Q does not divide P, it uses the equal shares of Algorithm 2, which
 *                     stay near that bound.
 *   kang_teams        Algorithm 1 also if Q does not divide P, as in the paper: teams of unequal
 *                     size, with pieces of unequal length (see below). The paper's Allgatherv of
 *                     the pieces is a ring of blocks of at most B bytes:
 *                     (max(t k_A, k_B) + max(P k_A, Q k_B)) beta for small B, t = ceil(P/Q).
 *                     With whole pieces every step would take as long as the largest one. With 25
 *                     and 7 processes that is 4 messages instead of the mean 25/7, 12 % above M.
 *   kang_unsegmented  b_j sends its whole message to each member; the i-th members of all teams
 *                     form a ring of Q.
 *                     (max(k_A, k_B) P/Q + max((P - P/Q) k_A, (Q-1) k_B)) beta
 *   kang_two_step     Segments as in kang. The members of a team assemble b_j's message in a ring,
 *                     which may stay in one node; then the i-th members of all teams share.
 *                     As kang, but with whole messages in the second ring.
 *
 * Larger teams have one member more and come first. P = 8, Q = 3 (Figure 2):
 *
 *      a0 a1 a2 | a3 a4 a5 | a6 a7
 *         b0    |    b1    |   b2
 *
 * In kang_teams b0 and b1 split their messages into three segments, b2 into two. The ring of A has
 * pieces of k_B/3 and k_B/2, that of B of 3 k_A and 2 k_A. In the last two algorithms the first
 * floor(P/Q) members of each team take part fully. The extra member of a larger team only sends its
 * own message. It joins one of the rings across the teams without a contribution: a0 a3 a6 a2 and
 * a1 a4 a7 a5.
 *
 * Source: Kang et al. 2019, Section 4. In Algorithm 1 line 9 the segment of a_x is m_{B,j,i} with x
 * = j P/Q + i. The text's "j = floor(i/q)" must be floor(i/(p/q)), so that line 4 and Figure 2
 * hold. There are no restrictions. In allgatherv the last two do not need the counts of the local
 * group, because whole messages go across. Rings are used instead of Bruck's algorithm, whose
 * rotation would need memory for all data again.
 */
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/intergroup.h"

enum { TEAMS, UNSEGMENTED, TWO_STEP }; /* modes */

static bool in_larger(const struct context *c)
{
    const int other = c->problem->remote_size;

    return c->size > other || (c->size == other && c->problem->first_group);
}

static int larger_size(const struct context *c)
{
    return in_larger(c) ? c->size : c->problem->remote_size;
}

static int smaller_size(const struct context *c)
{
    return in_larger(c) ? c->problem->remote_size : c->size;
}

/* Return the first rank of team j of the larger group; for the number of teams, the end. */
static int team_begin(const struct context *c, int j)
{
    return (int)part_begin(larger_size(c), 1, smaller_size(c), j);
}

static int team_members(const struct context *c, int j)
{
    return team_begin(c, j + 1) - team_begin(c, j);
}

static int regular_members(const struct context *c)
{
    return larger_size(c) / smaller_size(c);
}

static int own_team(const struct context *c)
{
    return (int)part_of(c->size, c->problem->remote_size, c->rank);
}

/* Return the number of this rank in its team. */
static int own_number(const struct context *c)
{
    return c->rank - team_begin(c, own_team(c));
}

/* Return part i of a message of the smaller group. */
static struct range segment(struct range message, int parts, int i)
{
    const struct range part = parts_range(message.length, 1, parts, i, i + 1);

    return (struct range){message.begin + part.begin, part.length};
}

/* ---- exchange */

/* Return this rank's message in IN. */
static struct range own_message(const struct context *c)
{
    return (struct range){0, block_range(c, c->rank).length};
}

/* Return the data of a message of the smaller group for member i of team j. */
static struct range member_data(const struct context *c, struct range message, int j, int i)
{
    const int mode = c->algorithm->mode;
    const int parts = mode == TEAMS ? team_members(c, j) : regular_members(c);

    if (i >= parts)
        return (struct range){message.begin, 0};
    return mode == UNSEGMENTED ? message : segment(message, parts, i);
}

static void larger_exchange(const struct context *c, struct round *out)
{
    const int j = own_team(c);

    emit_remote(out, STEP_RECEIVE, j, BUFFER_OUT,
                member_data(c, remote_block(c, j), j, own_number(c)));
    emit_remote(out, STEP_SEND, j, BUFFER_IN, own_message(c));
}

static void smaller_exchange(const struct context *c, int i, struct round *out)
{
    const int partner = team_begin(c, c->rank) + i;

    emit_remote(out, STEP_RECEIVE, partner, BUFFER_OUT, remote_block(c, partner));
    emit_remote(out, STEP_SEND, partner, BUFFER_IN, member_data(c, own_message(c), c->rank, i));
}

/* ---- rings of all ranks */

/* Smaller group: each rank contributes the messages of its team. */
static struct range team_blocks(const struct context *c, int j)
{
    return blocks_range(remote_begins(c), team_begin(c, j), team_begin(c, j + 1));
}

/* Larger group: each rank contributes its segment of the message that its team received. */
static struct range rank_segment(const struct context *c, int x)
{
    const int j = (int)part_of(c->size, c->problem->remote_size, x);

    return segment(remote_block(c, j), team_members(c, j), x - team_begin(c, j));
}

/* ---- rings across the teams: the i-th member of each, then the extra members of teams i, i + R,
 * ... */

static int ring_number(const struct context *c)
{
    const int i = own_number(c);

    return i < regular_members(c) ? i : own_team(c) % regular_members(c);
}

static int across_process(const struct context *c, int position)
{
    const int teams = c->problem->remote_size, ring = ring_number(c);

    if (position < teams)
        return team_begin(c, position) + ring;
    return team_begin(c, ring + regular_members(c) * (position - teams)) + regular_members(c);
}

static struct range across_block(const struct context *c, int position)
{
    return position < c->problem->remote_size ? remote_block(c, position) : (struct range){0};
}

static struct block_ring ring_across(const struct context *c)
{
    const int teams = c->problem->remote_size, regular = regular_members(c), j = own_team(c);
    const int odd = c->size % teams, ring = ring_number(c);
    const bool is_regular = own_number(c) < regular;

    return (struct block_ring){teams + (ring < odd ? (odd - ring + regular - 1) / regular : 0),
                               is_regular ? j : teams + j / regular, across_process, across_block};
}

/* ---- rings of the regular members of a team, in kang_two_step */

static int team_process(const struct context *c, int position)
{
    return team_begin(c, own_team(c)) + position;
}

static struct range team_segment(const struct context *c, int position)
{
    return segment(remote_block(c, own_team(c)), regular_members(c), position);
}

static int64_t team_ring_rounds(const struct context *c)
{
    return in_larger(c) && c->algorithm->mode == TWO_STEP ? regular_members(c) - 1 : 0;
}

static void team_ring_round(const struct context *c, int64_t r, struct round *out)
{
    const struct block_ring team = {regular_members(c), own_number(c), team_process, team_segment};

    if (team.position < team.size)
        block_ring_round(c, &team, r, out);
}

/* ---- last ring, which collects the pieces of the received data */

static struct pieces last_ring(const struct context *c)
{
    struct block_ring ring = {c->size, c->rank, NULL, team_blocks};

    if (in_larger(c) && c->algorithm->mode != TEAMS)
        ring = ring_across(c);
    else if (in_larger(c))
        ring.block = rank_segment;
    return (struct pieces){intergroup_more(c), ring};
}

static bool teams_prepare(struct context *c)
{
    if (!intergroup_prepare_more(c, c->size + 1))
        return false;
    const struct pieces pieces = last_ring(c);

    return pieces_prepare(&pieces, c);
}

/* ---- all rounds */

static int64_t exchange_rounds(const struct context *c)
{
    return in_larger(c) ? 1 : team_members(c, c->rank);
}

static int64_t teams_rounds(const struct context *c)
{
    const struct pieces pieces = last_ring(c);

    return exchange_rounds(c) + team_ring_rounds(c) + pieces_ring_rounds(&pieces);
}

static void teams_round(const struct context *c, int64_t r, struct round *out)
{
    const struct pieces pieces = last_ring(c);
    const int64_t team = r - exchange_rounds(c), last = team - team_ring_rounds(c);

    if (team < 0 && in_larger(c))
        larger_exchange(c, out);
    else if (team < 0)
        smaller_exchange(c, (int)r, out);
    else if (last < 0)
        team_ring_round(c, team, out);
    else
        pieces_ring_round(&pieces, c, last, out);
}

static bool divides(const struct context *c)
{
    return larger_size(c) % smaller_size(c) == 0;
}

static bool kang_prepare(struct context *c)
{
    return divides(c) ? teams_prepare(c) : shares_prepare(c);
}

static int64_t kang_rounds(const struct context *c)
{
    return divides(c) ? teams_rounds(c) : shares_rounds(c);
}

static void kang_round(const struct context *c, int64_t r, struct round *out)
{
    if (divides(c))
        teams_round(c, r, out);
    else
        shares_round(c, r, out);
}

/* ---- entries; allgatherv's kang is in intergroup_kang_v.c */

#define KANG_2018                                                                                  \
    .source = "Kang et al. 2019, Section 4, of Kang et al. 2018", .prepare = teams_prepare,        \
    .rounds = teams_rounds, .round = teams_round
#define KANG_UNSEGMENTED KANG_2018, .mode = UNSEGMENTED
#define KANG_TWO_STEP KANG_2018, .mode = TWO_STEP
#define V_COST "as for allgather, with the largest message of each round"

INTER_ALGORITHM(allgather, kang,
                .cost = "(P/Q + P - 1) alpha + (max(P k_A, Q k_B) + k_B) beta, P >= Q",
                .source = "Kang et al. 2019, Algorithm 1; Algorithm 2 where Q does not divide P",
                .prepare = kang_prepare, .rounds = kang_rounds, .round = kang_round);

INTER_ALGORITHM(
    allgather, kang_teams,
    .cost = "(max(t k_A, k_B) + max(P k_A, Q k_B)) beta for small blocks, t = ceil(P/Q), P >= Q; "
            "as kang where Q divides P",
    .source = "Kang et al. 2019, Algorithm 1 and Figure 2", .prepare = teams_prepare,
    .rounds = teams_rounds, .round = teams_round);

INTER_ALGORITHM(allgather, kang_unsegmented, KANG_UNSEGMENTED,
                .cost = "(max(k_A, k_B) P/Q + max((P - P/Q) k_A, (Q-1) k_B)) beta, P >= Q");

INTER_ALGORITHM(allgather, kang_two_step, KANG_TWO_STEP,
                .cost = "(2 P/Q + Q - 2) alpha + (max(P k_A, Q k_B) + k_B) beta, P >= Q");

INTER_ALGORITHM(allgatherv, kang_unsegmented, KANG_UNSEGMENTED, .cost = V_COST);
INTER_ALGORITHM(allgatherv, kang_two_step, KANG_TWO_STEP, .cost = V_COST);
