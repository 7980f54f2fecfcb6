/* Broadcast of n blocks on a circulant graph, in the minimum number of rounds: n-1 + ceil(lg p).
 *
 * Source: Traeff, Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction, 2024 (arXiv 2407.18004).
 *
 * In round r every process sends to v + skip[k] and receives from v - skip[k], with k = r mod q.
 * Here q = ceil(lg p), skip[q] = p and skip[k] = ceil(skip[k+1] / 2):
 *
 *     p = 7:  skip = 1, 2, 4 (, 7)        0 -> 1,  then 0 -> 2, 1 -> 3,  then 0 -> 4, 1 -> 5 ...
 *
 * The root sends the blocks 0, 1, 2 ... one after the other. In a phase of q rounds process v
 * receives one new block, its base block b, and q-1 older blocks. b is the number of the first skip
 * of the path from the root to v. Block numbers in the table grow by q each phase; in these numbers
 * the blocks of a phase are b and all of -q .. -1 except b-q. In round k process v sends the block
 * that v + skip[k] receives. The paper proves that v received it in an earlier round.
 *
 * The receive table of one process takes O(log p) time. Its sends are entries of the tables of q
 * other processes, so they take O(log^2 p). Blocks with negative numbers do not exist. Numbers from
 * n on occur only in the last phase, once per process, and denote the last block, n-1.
 */
#include "base/base.h"
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/tree.h"

/* Return the smallest skip of v's path, which takes the largest possible skips first; q for the
 * root. */
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

/* ---- the receive table: a depth-first search for q processes on the path to v
 *
 * In round k process v + p (a copy of v, so that all numbers are positive) receives the base block
 * of the last process that can have it by then. A list contains the base blocks that are not yet
 * assigned, the largest first. Each is found once, so the search time is linear in the length of
 * the list.
 */

struct block_search {
    const struct circulant *s;
    int64_t v;
    int found;
    int next[CIRCULANT_MOST + 2], previous[CIRCULANT_MOST + 2]; /* of entry e+1; 0 ends the list */
    int64_t *gets;
};

static void list_remove(struct block_search *f, int e)
{
    f->next[f->previous[e + 1]] = f->next[e + 1];
    f->previous[f->next[e + 1]] = f->previous[e + 1];
}

/* Continue from process u with paths of skip e and smaller. `bound`: the process found last. */
static void search_from(struct block_search *f, int64_t u, int64_t bound, int e)
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
        list_remove(f, e);
    }
}

static void compute_gets(const struct circulant *s, int64_t v, int64_t *gets)
{
    struct block_search f = {.s = s, .v = v + s->skip[s->q], .gets = gets};
    const int base = base_block(s, v);

    for (int e = 0; e <= s->q; e++) {
        f.next[e + 1] = e;
        f.previous[e] = e + 1;
    }
    f.previous[s->q + 1] = 0;
    f.next[0] = s->q + 1;
    list_remove(&f, base);
    search_from(&f, 0, 2 * s->skip[s->q], f.next[0] - 1);
    for (int k = 0; k < s->q; k++)
        gets[k] = gets[k] == s->q ? base : gets[k] - s->q;
}

/* ---- interface for this and other schedules */

void circulant_fill(struct circulant *s, int size, int64_t v, int64_t blocks)
{
    int64_t others[CIRCULANT_MOST];

    s->v = v;
    s->blocks = blocks;
    s->q = log2_ceiling(size);
    s->skip[s->q] = size;
    for (int k = s->q - 1; k >= 0; k--)
        s->skip[k] = s->skip[k + 1] - s->skip[k + 1] / 2;
    if (blocks == 0 || s->q == 0)
        return;
    s->idle = modulo(1 - blocks, s->q);
    compute_gets(s, v, s->gets);
    for (int k = 0; k < s->q; k++) {
        compute_gets(s, (v + s->skip[k]) % size, others);
        s->gives[k] = others[k];
    }
}

bool circulant_allocate(struct context *c, int64_t v, int64_t blocks)
{
    struct circulant *const s = memory_allocate(sizeof *s);

    c->table = (int64_t *)s;
    if (s != NULL)
        circulant_fill(s, c->size, v, blocks);
    return s != NULL;
}

const struct circulant *circulant_of(const struct context *c)
{
    return (const struct circulant *)c->table;
}

int64_t circulant_rounds(const struct context *c)
{
    const struct circulant *const s = circulant_of(c);

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

/* ---- schedule */

static int64_t circulant_blocks(const struct problem *p)
{
    return blocks_of(p->bytes, pipeline_block(p, p->bytes, log2_ceiling(p->size) - 1, p->bytes));
}

static bool circulant_prepare(struct context *c)
{
    return circulant_allocate(c, relative_rank(c), circulant_blocks(c->problem));
}

static void circulant_round(const struct context *c, int64_t r, struct round *out)
{
    const struct circulant *const s = circulant_of(c);
    const struct circulant_round now = circulant_at(s, r);

    if (now.gets >= 0)
        process_message(c, STEP_RECEIVE, now.from, message_block(c, s->blocks, now.gets), out);
    if (now.gives >= 0)
        process_message(c, STEP_SEND, now.to, message_block(c, s->blocks, now.gives), out);
}

ALGORITHM(bcast, circulant, .cost = "(n-1+ceil(lg p))(alpha + m/n beta), n blocks",
          .parameters = "block_size=BYTES", .source = "Traeff 2024, arXiv 2407.18004",
          .prepare = circulant_prepare, .rounds = circulant_rounds, .round = circulant_round,
          .opening = circulant_rounds, .blocks = circulant_blocks);
