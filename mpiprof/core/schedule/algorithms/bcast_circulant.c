/* Broadcast of n blocks on a circulant graph, in the fewest rounds possible: n-1 + ceil(lg p).
 *
 * Source: Traeff, Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction, 2024 (arXiv 2407.18004).
 *
 *   In round r every process sends to v + skip[k] and receives from v - skip[k], k = r mod q, where
 *   q = ceil(lg p), skip[q] = p and skip[k] = ceil(skip[k+1] / 2):
 *
 *     p = 7:  skip = 1, 2, 4 (, 7)        0 -> 1,  then 0 -> 2, 1 -> 3,  then 0 -> 4, 1 -> 5 ...
 *
 *   The root sends the blocks 0, 1, 2 ... one after the other. In a phase of q rounds process v
 *   gets one new block, its base block b (the number of the first skip of its path from the root),
 *   and the q-1 blocks that are older: in the table's numbers, which grow by q each phase, b and
 *   all of -q .. -1 but b-q. What it sends in round k is what v + skip[k] receives; the paper
 *   proves that it has got it in an earlier round.
 *
 * The table of one process takes O(log p) time; its sends, which are entries of the tables of the q
 * processes that it sends to, O(log^2 p). Blocks with negative numbers don't exist; numbers from n
 * on, which only the last phase has, once for a process, mean the last block, n-1.
 */
#include "base/memory.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/circulant.h"
#include "schedule/algorithms/tree.h"

enum { MOST = CIRCULANT_MOST };

static void compute_skips(struct circulant *s, int64_t p)
{
    s->q = log2_ceiling(p);
    s->skip[s->q] = p;
    for (int k = s->q - 1; k >= 0; k--)
        s->skip[k] = s->skip[k + 1] - s->skip[k + 1] / 2;
}

/* The smallest skip of v's path by greedy choice of the largest ones; q for the root. */
static int base_block(const struct circulant *s, int64_t v)
{
    for (int k = s->q - 1; k >= 0; k--) {
        if (s->skip[k] == v)
            return k;
        if (s->skip[k] < v)
            v -= s->skip[k];
    }
    return s->q;
}

/* ---- the receive table: a depth-first search for q processes on the way to v
 *
 * Process v + p (a copy of v, so that all numbers are positive) gets in round k the base block of
 * the last process that can have it then. Base blocks not yet given away are a list, the largest
 * first; each is found once, which makes the search as long as the list, but for a constant.
 */

struct search {
    const struct circulant *s;
    int64_t v;
    int found;
    int next[MOST + 2], previous[MOST + 2]; /* of entry e+1; 0 ends the list */
    int64_t *gets;
};

static void take(struct search *f, int e)
{
    f->next[f->previous[e + 1]] = f->next[e + 1];
    f->previous[f->next[e + 1]] = f->previous[e + 1];
}

/* Goes on from process u with the paths of skip e and smaller; `bound`: what was found last. */
static void search_from(struct search *f, int64_t u, int64_t bound, int e)
{
    const struct circulant *const s = f->s;

    for (; e >= 0; e = f->next[e + 1] - 1) {
        const int64_t there = u + s->skip[e];

        if (f->found == s->q || there > f->v - s->skip[f->found] || there >= bound)
            continue;
        if (there <= f->v - s->skip[f->found + 1])
            search_from(f, there, bound, e);
        if (f->found == s->q || u > f->v - s->skip[f->found + 1])
            return;
        bound = there;
        f->gets[f->found++] = e;
        take(f, e);
    }
}

static void compute_gets(const struct circulant *s, int64_t v, int64_t *gets)
{
    struct search f = {.s = s, .v = v + s->skip[s->q], .gets = gets};
    const int base = base_block(s, v);

    for (int e = 0; e <= s->q; e++) {
        f.next[e + 1] = e;
        f.previous[e] = e + 1;
    }
    f.previous[s->q + 1] = 0;
    f.next[0] = s->q + 1;
    take(&f, base);
    search_from(&f, 0, 2 * s->skip[s->q], f.next[0] - 1);
    for (int k = 0; k < s->q; k++)
        gets[k] = gets[k] == s->q ? base : gets[k] - s->q;
}

/* ---- for this and other schedules */

void circulant_fill(struct circulant *s, int64_t processes, int64_t v, int64_t blocks)
{
    int64_t others[MOST];

    *s = (struct circulant){.v = v, .blocks = blocks};
    compute_skips(s, processes);
    if (blocks == 0 || s->q == 0)
        return;
    s->idle = modulo(1 - blocks, s->q);
    compute_gets(s, v, s->gets);
    for (int k = 0; k < s->q; k++) {
        compute_gets(s, (v + s->skip[k]) % processes, others);
        s->gives[k] = others[k];
    }
}

int64_t circulant_length(const struct circulant *s)
{
    return s->blocks > 0 && s->q > 0 ? s->blocks - 1 + s->q : 0;
}

struct circulant_round circulant_at(const struct circulant *s, int64_t r)
{
    const int64_t processes = s->skip[s->q], newest = s->blocks - 1;
    const int64_t slot = (r + s->idle) % s->q, grown = r - slot, skip = s->skip[slot];
    const int64_t gets = s->gets[slot] + grown < newest ? s->gets[slot] + grown : newest;
    const int64_t gives = s->gives[slot] + grown < newest ? s->gives[slot] + grown : newest;

    return (struct circulant_round){.from = (s->v - skip + processes) % processes,
                                    .to = (s->v + skip) % processes,
                                    .gets = s->v > 0 && gets >= 0 ? gets : -1,
                                    .gives = s->v + skip != processes && gives >= 0 ? gives : -1};
}

/* ---- the schedule */

static int64_t circulant_blocks(const struct problem *p)
{
    return blocks_of(p->bytes, pipeline_block(p, p->bytes, log2_ceiling(p->size) - 1, p->bytes));
}

static bool circulant_prepare(struct context *c)
{
    struct circulant *const s = memory_get(sizeof *s);

    c->table = (int64_t *)s;
    if (s != NULL)
        circulant_fill(s, c->size, relative_rank(c), circulant_blocks(c->problem));
    return s != NULL;
}

static int64_t circulant_rounds(const struct context *c)
{
    return circulant_length((const struct circulant *)c->table);
}

static void circulant_round(const struct context *c, int64_t r, struct round *out)
{
    const struct circulant *const s = (const struct circulant *)c->table;
    const struct circulant_round now = circulant_at(s, r);

    if (now.gets >= 0)
        receive_block(c, now.from, s->blocks, now.gets, out);
    if (now.gives >= 0)
        send_block(c, now.to, s->blocks, now.gives, out);
}

const struct algorithm algorithm_bcast_circulant = {
    .operation = "bcast",
    .name = "circulant",
    .cost = "(n-1+ceil(lg p))(alpha + m/n beta), n blocks",
    .parameters = "block_size=BYTES",
    .source = "Traeff 2024, arXiv 2407.18004",
    .prepare = circulant_prepare,
    .rounds = circulant_rounds,
    .round = circulant_round,
    .opening = circulant_rounds,
    .blocks = circulant_blocks,
};
