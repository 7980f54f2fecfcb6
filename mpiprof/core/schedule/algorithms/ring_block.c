/* Block size of the pipelined ring for irregular data.
 *
 * Source: Traeff et al. 2009, Section 2.4. Its formula (2) counts half of the last blocks as full,
 * whatever the counts, and is up to 1.14 times slower than the linear ring. So formula (2) is one
 * candidate. The other candidates descend from the largest count, that of the linear ring, through
 * the smallest sizes for each number of blocks. Each candidate is evaluated with the exact number
 * of rounds.
 *
 * All input is known to every rank, so all ranks compute the same size. The number of candidates is
 * bounded, because each call runs the search: 40 us on a slow processor, up to MOST_TRIED
 * processes. collectives/pipeline_formulas.py has the same search.
 */
#include "schedule/algorithms/building_blocks.h"

#include "base/base.h"
#include "schedule/algorithms/tree.h"

enum { MOST_TRIED = 4096 }; /* block sizes times processes */

/* Counts and blocks by position in the ring. The last three arrays are scratch memory of
 * `rounds_of`. */
struct search {
    const struct problem *problem;
    const int64_t *order;
    int64_t size, total, largest, *blocks, *following, *ahead, *smallest;
};

static int64_t count_of(const struct search *s, int64_t position)
{
    const struct problem *const p = s->problem;

    return p->counts != NULL ? p->counts[s->order[position]] : p->bytes;
}

/* Set following[i] to the first position from i on with data, in the ring unrolled twice. */
static void find_following(struct search *s)
{
    int64_t next = 2 * s->size;

    for (int64_t i = 2 * s->size - 1; i >= 0; i--) {
        next = s->blocks[i % s->size] > 0 ? i : next;
        if (i <= s->size)
            s->following[i] = next;
    }
}

/* Return the exact number of rounds. Message k leaves a process in round k + d. Here d is the
 * maximum of h - (the blocks of the last h processes, including its own) over all h with at most k
 * blocks. Let ahead[j] = j - (the blocks of the processes before j). Then d is ahead at the end
 * minus ahead at the beginning of a run of processes. `smallest` is the queue of beginnings that
 * may have the minimum. */
static int64_t rounds_of(struct search *s, int64_t block)
{
    const int64_t size = s->size;
    int64_t total = 0, rounds = 0, added = 0, head = 0, tail = 0;

    for (int64_t i = 0; i < size; i++) {
        s->blocks[i] = blocks_of(count_of(s, i), block);
        total += s->blocks[i];
    }
    find_following(s);
    s->ahead[0] = 0;
    for (int64_t i = 0; i < 2 * size; i++)
        s->ahead[i + 1] = s->ahead[i] + 1 - s->blocks[i % size];
    for (int64_t receiver = size; receiver < 2 * size; receiver++) {
        const int64_t count = total - s->blocks[receiver - size];
        const int64_t first = s->following[receiver - size + 1];

        for (int64_t begin = added > first + 1 ? added : first + 1; begin <= receiver; begin++) {
            while (tail > head && s->ahead[s->smallest[tail - 1]] >= s->ahead[begin])
                tail--;
            s->smallest[tail++] = begin;
            added = begin + 1;
        }
        while (tail > head && s->smallest[head] <= first)
            head++;
        const int64_t late = tail > head ? s->ahead[receiver] - s->ahead[s->smallest[head]] : 0;

        if (count > 0 && count + (late > 0 ? late : 0) > rounds)
            rounds = count + (late > 0 ? late : 0);
    }
    return rounds;
}

static double time_of(struct search *s, int64_t block)
{
    const struct problem *const p = s->problem;

    return (double)rounds_of(s, block) * (p->alpha + (double)block * p->beta);
}

/* Return the smallest size that cuts all data into as many blocks as `block` does. */
static int64_t least_like(const struct search *s, int64_t block)
{
    int64_t least = 1;

    for (int64_t i = 0; i < s->size; i++) {
        const int64_t m = count_of(s, i), part = m > 0 ? blocks_of(m, blocks_of(m, block)) : 0;

        least = part > least ? part : least;
    }
    return least;
}

static int64_t best_block(struct search *s, int64_t best)
{
    const struct problem *const p = s->problem;
    const int64_t most = MOST_TRIED / s->size;
    int64_t block = s->largest;
    double least = time_of(s, best);

    for (int64_t tried = 0; block > 0 && (tried == 0 || tried < most); tried++) {
        block = least_like(s, block);
        if ((double)(s->total - s->largest) / (double)block * p->alpha > least)
            break;
        const double takes = time_of(s, block);

        best = takes < least ? block : best;
        least = takes < least ? takes : least;
        block--;
    }
    return best;
}

/* Return formula (2), or the formula of a pipeline if one process has all data. */
static int64_t block_size_formula_2(const struct search *s, int64_t empty)
{
    const int64_t full = s->size - empty;
    const double more = full == 1 ? (double)s->size - 2
                                  : (double)(s->size + empty) / 2 - 1 + (double)(empty / full);

    return pipeline_block(s->problem, s->total, more, s->largest);
}

int64_t ring_block(const struct problem *p, const int64_t *order)
{
    struct search s = {.problem = p, .order = order, .size = p->size};
    int64_t empty = 0, smallest = count_of(&s, 0);

    for (int64_t i = 0; i < s.size; i++) {
        const int64_t m = count_of(&s, i);

        s.total += m;
        s.largest = m > s.largest ? m : s.largest;
        smallest = m < smallest ? m : smallest;
        empty += m == 0;
    }
    if (s.total == 0)
        return 1;
    if (p->block_size > 0)
        return pipeline_block(p, s.total, 0, s.largest);
    if (s.largest == smallest)
        return s.largest;
    if (p->alpha <= 0 || p->beta <= 0)
        return block_size_formula_2(&s, empty);
    const size_t n = (size_t)s.size;

    s.blocks = memory_allocate(sizeof *s.blocks * (6 * n + 2));
    if (s.blocks == NULL)
        return 0;
    s.following = s.blocks + n;
    s.ahead = s.following + n + 1;
    s.smallest = s.ahead + 2 * n + 1;
    const int64_t block = best_block(&s, block_size_formula_2(&s, empty));

    memory_free(s.blocks);
    return block;
}
