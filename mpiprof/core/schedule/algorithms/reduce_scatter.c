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
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/reductions.h"

/* ---- pairwise */

static int64_t pairwise_scratch(const struct problem *p)
{
    int64_t largest = 0;

    for (int i = 0; i < p->size; i++)
        largest = block_bytes(p, i) > largest ? block_bytes(p, i) : largest;
    return 4 * largest;
}

static void pairwise_scatter_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t own = block_range(c, c->rank).length;
    const struct pairwise w = {.into = BUFFER_SCRATCH, .scratch = own, .block = block_range};

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

/* Return the range of `count` places of the permuted vector. */
static struct range places_range(const struct context *c, int place, int count)
{
    return blocks_range(c->table + c->size + 1, place, place + count);
}

static bool halving_prepare(struct context *c)
{
    const int levels = log2_floor(c->size), places = 1 << levels;

    if (!table_allocate(c, c->size + 1 + places + 1))
        return false;
    int64_t *const begins = begins_fill(c->table, c->size, c->problem->counts, c->problem->bytes);

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
    return 2 * counts_sum(p->size, p->counts, p->bytes);
}

/* Return the bytes of the permuted vector that survivor x has after k halvings. */
static struct range survivor_range(const struct context *c, int x, int k)
{
    const int levels = log2_floor(c->size), count = 1 << (levels - k);

    return places_range(c, reversed(x, levels) / count * count, count);
}

static void permute_vector(const struct context *c, struct round *out)
{
    const int levels = log2_floor(c->size);

    for (int j = 0; j < 1 << levels; j++) {
        const struct range place = places_range(c, j, 1);

        emit_copy(out, BUFFER_SCRATCH, place.begin, BUFFER_IN,
                  c->table[first_share(c, reversed(j, levels))], place.length);
    }
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
    const int x = survivor_rank(c, c->rank);
    const int64_t length = block_range(c, c->rank).length;

    if (x < 0) {
        emit_receive(out, c->rank - 1, BUFFER_OUT, 0, length);
        return;
    }
    const int64_t begin = survivor_range(c, x, log2_floor(c->size)).begin;

    emit_copy(out, BUFFER_OUT, 0, BUFFER_SCRATCH, begin, length);
    if (x < removed_count(c))
        emit_send(out, c->rank + 1, BUFFER_SCRATCH, begin + length,
                  block_range(c, c->rank + 1).length);
}

static void halving_scatter_round(const struct context *c, int64_t r, struct round *out)
{
    const int removed = removed_count(c), levels = log2_floor(c->size);
    const int x = survivor_rank(c, c->rank), k = (int)r - (removed > 0);
    const int64_t n = c->table[c->size];

    if (r == 0)
        permute_vector(c, out);
    if (k < 0 && c->rank < 2 * removed)
        absorb(c, out);
    if (k == 0 && removed > 0 && c->rank < 2 * removed && x >= 0)
        emit_reduce(out, BUFFER_SCRATCH, 0, BUFFER_SCRATCH, n, n, true);
    if (k > 0 && x >= 0) {
        const struct range mine = survivor_range(c, x, k);

        emit_reduce(out, BUFFER_SCRATCH, mine.begin, BUFFER_SCRATCH, n, mine.length,
                    (x >> (k - 1) & 1) == 0);
    }
    if (k == levels) {
        hand_out(c, out);
    } else if (k >= 0 && x >= 0) {
        const int peer = survivor_process(c, x ^ 1 << k);

        emit_receive(out, peer, BUFFER_SCRATCH, n, survivor_range(c, x, k + 1).length);
        emit_message(out, STEP_SEND, peer, BUFFER_SCRATCH, survivor_range(c, x ^ 1 << k, k + 1));
    }
}

/* ---- entries; the operations differ only in the counts */

#define REDUCE_SCATTER(name, ...)                                                                  \
    ALGORITHM(reduce_scatter, name, __VA_ARGS__);                                                  \
    ALGORITHM(reduce_scatter_block, name, __VA_ARGS__)

REDUCE_SCATTER(pairwise, .keeps_order = true, .cost = "(p-1) alpha + (1 - 1/p)(n beta + n gamma)",
               .source = "Thakur, Rabenseifner and Gropp 2005, Section 4.3",
               .prepare = begins_prepare, .rounds = rounds_size, .scratch = pairwise_scratch,
               .round = pairwise_scatter_round);

REDUCE_SCATTER(recursive_halving, .keeps_order = true,
               .cost = "lg p alpha + (1 - 1/p)(n beta + n gamma); p not a power of two: "
                       "(lg p' + 2) alpha + (2 - 1/p' + 1/p) n beta + (2 - 1/p') n gamma",
               .source = "Thakur, Rabenseifner and Gropp 2005, Section 4.3",
               .prepare = halving_prepare, .rounds = halving_scatter_rounds,
               .scratch = halving_scatter_scratch, .round = halving_scatter_round);
