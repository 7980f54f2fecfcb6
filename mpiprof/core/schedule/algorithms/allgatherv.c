/* Allgatherv: all ranks get the blocks of all ranks, with arbitrary sizes m_i, in total m.
 *
 * Source: Traeff, Ripke, Siebert, Balaji, Thakur, Gropp: A Pipelined Algorithm for Large, Irregular
 * All-gather Problems, 2009.
 *
 *   linear_ring     see allgather.c                            (p-1)(alpha + max m_i beta)
 *   pipelined_ring  the same with blocks of at most B bytes    (b - min b_i)(alpha + B beta)
 *
 * The pipelined ring (Section 2.2) splits m_i into b_i blocks and lines up all b blocks along the
 * ring. A process sends its own blocks, the last one first. It then forwards received blocks in the
 * order of their arrival, except its successor's own blocks:
 *
 *       ring     | A0 A1 A2 | B0 | C0 C1 |        B sends to C:  B0, A2, A1, A0
 *                      A       B      C           A sends to B:  A2, A1, A0, C1, C0
 *
 * If all processes have data, the k-th message is sent in round k: it is the process's own or
 * arrives by round k - b_i. This takes b - b_i rounds. A process without data only forwards
 * (Section 2.3; its empty block is neither sent nor received). It delays each message that passes
 * by one round, unless later processes still have own blocks to send. The k-th message is sent in
 * round k + d. Here d is the maximum of h - (blocks of the last h processes), over all h for which
 * these are at most k blocks. The number of rounds is
 *
 *       b - 1                        if processes without data are consecutive (z of them, each
 *                                    with b counted as 1)
 *       b - z - 1 + ceil(z/(p-z))    if they are spread evenly and b_i exceeds their distance
 *                                    (the paper rounds down, which is right if p-z divides z)
 *
 * Block size (Section 2.4): as given; else m' where all m_i are m' (this is the linear ring), and
 * otherwise the best one by the exact number of rounds (ring_block.c).
 */
#include "base/base.h"
#include "schedule/algorithms/building_blocks.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/algorithms/tree.h"

/* The messages from one process to its successor. */
struct stream {
    /* the first message is block `newest`; the next ones are its predecessors */
    int64_t newest, count;
    /* Runs of successive rounds with a message: run i begins with message number[i] in round[i]. */
    int64_t runs, *number, *round;
};

struct ring {
    int64_t block, blocks; /* block size B; number of blocks without empty ones */
    int64_t *order;        /* rank by position */
    int64_t *first;        /* number of the first block, by position; then the end */
    int64_t *place;        /* begin of a rank's data in OUT, by rank; then the end */
    int before, after;
    struct stream gets, gives;
};

/* Find the first round in which each message of the process at a position can leave; see the
 * head. */
static void find_runs(const struct ring *g, int size, int64_t position, struct stream *s)
{
    int64_t blocks = 0, delay = 0;

    s->number[0] = s->round[0] = 0;
    s->runs = 1;
    for (int64_t hops = 1; hops < size - 1; hops++) {
        blocks += g->first[position + 1] - g->first[position];
        position = position > 0 ? position - 1 : size - 1;
        if (blocks >= s->count)
            return;
        if (hops - blocks <= delay)
            continue;
        delay = hops - blocks;
        if (s->number[s->runs - 1] < blocks)
            s->runs++;
        s->number[s->runs - 1] = blocks;
        s->round[s->runs - 1] = blocks + delay;
    }
}

static void find_stream(const struct ring *g, int size, int64_t position, struct stream *s)
{
    const int64_t next = modulo(position + 1, size);

    s->newest = g->first[position + 1] - 1;
    s->count = g->blocks - (g->first[next + 1] - g->first[next]);
    find_runs(g, size, position, s);
}

static bool pipelined_prepare(struct context *c)
{
    const size_t p = (size_t)c->size;
    struct ring *const g = memory_allocate(sizeof *g + sizeof(int64_t) * (7 * p + 2));
    int64_t self = 0;

    c->table = (int64_t *)g;
    if (g == NULL)
        return false;
    g->order = (int64_t *)(g + 1);
    g->first = g->order + p;
    g->place = g->first + p + 1;
    g->gets.number = g->place + p + 1;
    g->gets.round = g->gets.number + p;
    g->gives.number = g->gets.round + p;
    g->gives.round = g->gives.number + p;
    if (!ring_order(c->problem, g->order))
        return false;
    g->block = ring_block(c->problem, g->order);
    if (g->block == 0)
        return false;
    begins_fill(g->place, c->size, c->problem->counts, c->problem->bytes);
    g->first[0] = 0;
    for (int i = 0; i < c->size; i++)
        g->first[i + 1] = g->first[i] + blocks_of(block_bytes(c->problem, g->order[i]), g->block);
    g->blocks = g->first[c->size];
    while (g->order[self] != c->rank)
        self++;
    g->before = (int)g->order[modulo(self - 1, c->size)];
    g->after = (int)g->order[modulo(self + 1, c->size)];
    find_stream(g, c->size, modulo(self - 1, c->size), &g->gets);
    find_stream(g, c->size, self, &g->gives);
    return true;
}

static int64_t stream_rounds(const struct stream *s)
{
    const int64_t last = s->runs - 1;

    return s->count > 0 ? s->count + s->round[last] - s->number[last] : 0;
}

static int64_t pipelined_rounds(const struct context *c)
{
    const struct ring *const g = (const struct ring *)c->table;
    const int64_t gets = stream_rounds(&g->gets), gives = stream_rounds(&g->gives);
    const int64_t more = gets > gives ? gets : gives;

    return more > 0 ? more : 1;
}

/* Return the number of the message of a round, or -1 for none. */
static int64_t message_of(const struct stream *s, int64_t r)
{
    const int64_t run = find_last(s->round, s->runs, r);
    const int64_t k = s->number[run] + r - s->round[run];

    return k < (run + 1 < s->runs ? s->number[run + 1] : s->count) ? k : -1;
}

/* Return the position of message k of a stream in OUT. */
static struct range message_range(const struct context *c, const struct stream *s, int64_t k)
{
    const struct ring *const g = (const struct ring *)c->table;
    const int64_t number = s->newest - k < 0 ? s->newest - k + g->blocks : s->newest - k;
    const int64_t position = find_last(g->first, c->size, number);
    const struct range blocks = range_at(g->first, position);
    const struct range data = range_at(g->place, g->order[position]);
    const int64_t i = number - blocks.begin, begin = i * g->block;
    struct range block = {begin, i + 1 < blocks.length ? g->block : data.length - begin};

    if (c->problem->equal_blocks)
        block = parts_range(data.length, 1, blocks.length, i, i + 1);
    block.begin += data.begin;
    return block;
}

static void pipelined_round(const struct context *c, int64_t r, struct round *out)
{
    const struct ring *const g = (const struct ring *)c->table;
    const struct range own = range_at(g->place, c->rank);
    const int64_t gets = message_of(&g->gets, r), gives = message_of(&g->gives, r);

    if (r == 0)
        emit_copy(out, BUFFER_OUT, own.begin, BUFFER_IN, 0, own.length);
    if (gets >= 0)
        emit_message(out, STEP_RECEIVE, g->before, BUFFER_OUT, message_range(c, &g->gets, gets));
    if (gives >= 0)
        emit_message(out, STEP_SEND, g->after, BUFFER_OUT, message_range(c, &g->gives, gives));
}

ALGORITHM(allgatherv, pipelined_ring,
          .cost = "(b - min b_i)(alpha + B beta), b_i = max(1, ceil(m_i/B))",
          .parameters = "block_size=BYTES blocks=last_short|equal order=ranks|spread|nodes|both",
          .source = "Traeff et al. 2009, Sections 2.2 to 2.4", .prepare = pipelined_prepare,
          .rounds = pipelined_rounds, .round = pipelined_round);
