/* Reduce_scatter and reduce_scatter_block: the vectors are combined, and each rank gets its share.
 *
 * n: bytes of the vector, p' = 2^floor(lg p).
 *
 *   pairwise           round i: send rank+i's share to it, receive this rank's share from rank-i
 *                      p-1 rounds, (p-1) alpha + (1 - 1/p)(n beta + n gamma)
 *   recursive_halving  exchange half of the vector with the partner at distance 1, a quarter at
 *                      distance 2, ...: lg p' rounds
 *
 * recursive_halving first arranges the shares in bit-reversed order. So each rank ends with its own
 * share although the distance doubles, and the operands stay in rank order. If p is not a power of
 * two, the odd ranks of the first 2(p-p') first send their vector to the even ranks. They receive
 * their share from the even ranks at the end.
 *
 * Source: Thakur, Rabenseifner and Gropp 2005, Section 4.3. Both preserve the order of operands.
 * With MPI_IN_PLACE the share replaces the beginning of the vector, so OUT is written last.
 */
#include "base/base.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/reductions.h"

/* Fill the table: the begin of each rank's share, the end, and `more` numbers of
 * recursive_halving. */
static bool shares_prepare(struct context *c, int more)
{
    const struct problem *const p = c->problem;

    c->table = memory_allocate(sizeof *c->table * (size_t)(c->size + 1 + more));
    if (c->table == NULL)
        return false;
    c->table[0] = 0;
    for (int i = 0; i < c->size; i++)
        c->table[i + 1] = c->table[i] + (p->counts != NULL ? p->counts[i] : p->bytes);
    return true;
}

static int64_t share_begin(const struct context *c, int i)
{
    return c->table[i];
}

static int64_t share_length(const struct context *c, int i)
{
    return c->table[i + 1] - c->table[i];
}

/* ---- pairwise */

static bool pairwise_prepare(struct context *c)
{
    return shares_prepare(c, 0);
}

static int64_t pairwise_rounds(const struct context *c)
{
    return c->size;
}

static int64_t pairwise_scratch(const struct problem *p)
{
    int64_t most = p->bytes;

    for (int i = 0; p->counts != NULL && i < p->size; i++)
        most = p->counts[i] > most ? p->counts[i] : most;
    return 4 * most;
}

static void pairwise_scatter_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t own = share_length(c, c->rank);
    const struct pairwise w = {.into = BUFFER_SCRATCH, .scratch = own, .begin = share_begin};

    pairwise_round(c, &w, r, out);
    if (r == c->size - 1)
        emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, 0, own);
}

/* ---- recursive_halving
 *
 * Place j of the permuted vector belongs to the survivor with the bit-reversed number j. It
 * contains the survivor's share and the share of the removed rank that follows it. The table
 * continues with the begins of the places. SCRATCH contains the permuted vector, then the received
 * data. */

static int reversed(int x, int bits)
{
    int y = 0;

    for (int i = 0; i < bits; i++)
        y = y << 1 | (x >> i & 1);
    return y;
}

/* Return the first of the one or two ranks that get a share from survivor x; for 2^levels, p. */
static int first_share(const struct context *c, int x)
{
    const int removed = removed_count(c);

    return x < removed ? 2 * x : x + removed;
}

static int64_t place_begin(const struct context *c, int place)
{
    return c->table[c->size + 1 + place];
}

static bool halving_prepare(struct context *c)
{
    const int levels = log2_floor(c->size), places = 1 << levels;

    if (!shares_prepare(c, places + 1))
        return false;
    int64_t *const begins = c->table + c->size + 1;

    begins[0] = 0;
    for (int j = 0; j < places; j++) {
        const int x = reversed(j, levels);

        begins[j + 1] = begins[j] + c->table[first_share(c, x + 1)] - c->table[first_share(c, x)];
    }
    return true;
}

static int64_t halving_scatter_rounds(const struct context *c)
{
    return log2_floor(c->size) + 1 + (removed_count(c) > 0);
}

static int64_t halving_scatter_scratch(const struct problem *p)
{
    int64_t all = p->counts != NULL ? 0 : p->size * p->bytes;

    for (int i = 0; p->counts != NULL && i < p->size; i++)
        all += p->counts[i];
    return 2 * all;
}

/* Return the bytes of the permuted vector that survivor x has after k halvings. */
static struct range turned_range(const struct context *c, int x, int k)
{
    const int levels = log2_floor(c->size), first = reversed(x, levels) >> (levels - k)
                                                                               << (levels - k);
    const int64_t begin = place_begin(c, first);

    return (struct range){begin, place_begin(c, first + (1 << (levels - k))) - begin};
}

static void turn_in(const struct context *c, struct round *out)
{
    const int levels = log2_floor(c->size);

    for (int j = 0; j < 1 << levels; j++)
        emit_copy(out, BUFFER_SCRATCH, place_begin(c, j), BUFFER_IN,
                  c->table[first_share(c, reversed(j, levels))],
                  place_begin(c, j + 1) - place_begin(c, j));
}

/* Round 0 with removed processes: the odd rank sends its permuted vector to the even rank. */
static void absorb(const struct context *c, struct round *out)
{
    const int64_t n = c->table[c->size];

    if (c->rank % 2 == 0)
        emit_receive(out, c->rank + 1, BUFFER_SCRATCH, n, n);
    else
        emit_send(out, c->rank - 1, BUFFER_SCRATCH, 0, n);
}

/* Last round: distribute the shares to their ranks. */
static void hand_out(const struct context *c, struct round *out)
{
    const int removed = removed_count(c), x = survivor_rank(c, -1, c->rank);

    if (x < 0) {
        emit_receive(out, c->rank - 1, BUFFER_OUT, 0, share_length(c, c->rank));
        return;
    }
    const int64_t at = turned_range(c, x, log2_floor(c->size)).begin;

    emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, at, share_length(c, c->rank));
    if (x < removed)
        emit_send(out, c->rank + 1, BUFFER_SCRATCH, at + share_length(c, c->rank),
                  share_length(c, c->rank + 1));
}

static void halving_scatter_round(const struct context *c, int64_t r, struct round *out)
{
    const int removed = removed_count(c), levels = log2_floor(c->size);
    const int x = survivor_rank(c, -1, c->rank), k = (int)r - (removed > 0);
    const int64_t n = c->table[c->size];

    if (r == 0)
        turn_in(c, out);
    if (k < 0 && c->rank < 2 * removed)
        absorb(c, out);
    if (k == 0 && removed > 0 && c->rank < 2 * removed && x >= 0)
        emit_reduce(out, BUFFER_SCRATCH, 0, BUFFER_SCRATCH, n, n, true);
    if (k > 0 && x >= 0) {
        const struct range mine = turned_range(c, x, k);

        emit_reduce(out, BUFFER_SCRATCH, mine.begin, BUFFER_SCRATCH, n, mine.length,
                    (x >> (k - 1) & 1) == 0);
    }
    if (k == levels) {
        hand_out(c, out);
    } else if (k >= 0 && x >= 0) {
        const int peer = survivor_process(c, -1, x ^ 1 << k);
        const struct range theirs = turned_range(c, x ^ 1 << k, k + 1);

        emit_receive(out, peer, BUFFER_SCRATCH, n, turned_range(c, x, k + 1).length);
        emit_send(out, peer, BUFFER_SCRATCH, theirs.begin, theirs.length);
    }
}

/* ---- entries */

#define PAIRWISE                                                                                   \
    .name = "pairwise", .keeps_order = true, .cost = "(p-1) alpha + (1 - 1/p)(n beta + n gamma)",  \
    .source = "Thakur, Rabenseifner and Gropp 2005, Section 4.3", .prepare = pairwise_prepare,     \
    .rounds = pairwise_rounds, .scratch = pairwise_scratch, .round = pairwise_scatter_round

const struct algorithm algorithm_reduce_scatter_pairwise = {.operation = "reduce_scatter",
                                                            PAIRWISE};

const struct algorithm algorithm_reduce_scatter_block_pairwise = {
    .operation = "reduce_scatter_block", PAIRWISE};

#define RECURSIVE_HALVING                                                                          \
    .name = "recursive_halving", .keeps_order = true,                                              \
    .cost = "lg p alpha + (1 - 1/p)(n beta + n gamma); p not a power of two: "                     \
            "(lg p' + 2) alpha + (2 - 1/p' + 1/p) n beta + (2 - 1/p') n gamma",                    \
    .source = "Thakur, Rabenseifner and Gropp 2005, Section 4.3", .prepare = halving_prepare,      \
    .rounds = halving_scatter_rounds, .scratch = halving_scatter_scratch,                          \
    .round = halving_scatter_round

const struct algorithm algorithm_reduce_scatter_recursive_halving = {.operation = "reduce_scatter",
                                                                     RECURSIVE_HALVING};

const struct algorithm algorithm_reduce_scatter_block_recursive_halving = {
    .operation = "reduce_scatter_block", RECURSIVE_HALVING};
