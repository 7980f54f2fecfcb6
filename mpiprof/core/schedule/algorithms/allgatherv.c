/* Allgatherv: all ranks get the blocks of all ranks, with arbitrary sizes m_i, in total m.
 *
 * Source: Traeff, Ripke, Siebert, Balaji, Thakur, Gropp: A Pipelined Algorithm for Large, Irregular
 * All-gather Problems, 2009.
 *
 *   linear_ring     round r: forward the last block to rank+1  (p-1)(alpha + max m_i beta)
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

static int64_t block_bytes(const struct problem *p, int64_t rank)
{
    return p->counts != NULL ? p->counts[rank] : p->bytes;
}

/* Fill place[rank], the begin of each rank's block, and place[size], the end. */
static void find_places(const struct problem *p, int64_t *place)
{
    place[0] = 0;
    for (int i = 0; i < p->size; i++)
        place[i + 1] = place[i] + block_bytes(p, i);
}

/* ---- linear ring; the table contains the begins of the blocks */

static bool linear_prepare(struct context *c)
{
    c->table = memory_allocate(sizeof *c->table * ((size_t)c->size + 1));
    if (c->table != NULL)
        find_places(c->problem, c->table);
    return c->table != NULL;
}

static int64_t linear_rounds(const struct context *c)
{
    return c->size > 1 ? c->size - 1 : 1;
}

static void linear_round(const struct context *c, int64_t r, struct round *out)
{
    const int64_t *const place = c->table;
    const int gives = modulo(c->rank - r, c->size), gets = modulo(c->rank - 1 - r, c->size);

    if (r == 0)
        emit_copy(out, BUFFER_OUT, place[c->rank], BUFFER_IN, 0, block_bytes(c->problem, c->rank));
    if (c->size == 1)
        return;
    emit_receive(out, modulo(c->rank - 1, c->size), BUFFER_OUT, place[gets],
                 place[gets + 1] - place[gets]);
    emit_send(out, modulo(c->rank + 1, c->size), BUFFER_OUT, place[gives],
              place[gives + 1] - place[gives]);
}

const struct algorithm algorithm_allgatherv_linear_ring = {
    .operation = "allgatherv",
    .name = "linear_ring",
    .cost = "(p-1)(alpha + max m_i beta)",
    .source = "Traeff et al. 2009, Section 2.1",
    .prepare = linear_prepare,
    .rounds = linear_rounds,
    .round = linear_round,
};

/* ---- pipelined ring */

/* Messages with number `from` and above are sent `late` rounds after their number. */
struct delay {
    int64_t from, late;
};

/* The messages from one process to its successor. */
struct stream {
    /* the first message is block `newest`; the next ones are its predecessors */
    int64_t newest, count;
    int64_t delays;
    struct delay *delay;
};

struct ring {
    int64_t block, blocks; /* block size B; number of blocks without empty ones */
    int64_t *order;        /* rank by position */
    int64_t *first;        /* number of the first block, by position; then the end */
    int64_t *place;        /* begin of a rank's data in OUT, by rank; then the end */
    int before, after;
    struct stream gets, gives;
};

/* The first round in which each message of the process at a position can leave; see the head. */
static void find_delays(const struct ring *g, int size, int64_t position, struct stream *s)
{
    int64_t blocks = 0;

    s->delay[0] = (struct delay){0, 0};
    s->delays = 1;
    for (int64_t hops = 1; hops < size - 1; hops++) {
        blocks += g->first[position + 1] - g->first[position];
        position = position > 0 ? position - 1 : size - 1;
        if (blocks >= s->count)
            return;
        if (hops - blocks <= s->delay[s->delays - 1].late)
            continue;
        if (s->delay[s->delays - 1].from < blocks)
            s->delays++;
        s->delay[s->delays - 1] = (struct delay){blocks, hops - blocks};
    }
}

static void find_stream(const struct ring *g, int size, int64_t position, struct stream *s)
{
    const int64_t next = modulo(position + 1, size);

    s->newest = g->first[position + 1] - 1;
    s->count = g->blocks - (g->first[next + 1] - g->first[next]);
    find_delays(g, size, position, s);
}

static void number_blocks(const struct problem *p, struct ring *g)
{
    g->first[0] = 0;
    for (int i = 0; i < p->size; i++)
        g->first[i + 1] = g->first[i] + blocks_of(block_bytes(p, g->order[i]), g->block);
    g->blocks = g->first[p->size];
}

static bool pipelined_prepare(struct context *c)
{
    const size_t p = (size_t)c->size;
    struct ring *const g =
        memory_allocate(sizeof *g + sizeof(int64_t) * (3 * p + 2) + 2 * sizeof(struct delay) * p);
    int64_t self = 0;

    c->table = (int64_t *)g;
    if (g == NULL)
        return false;
    g->order = (int64_t *)(g + 1);
    g->first = g->order + p;
    g->place = g->first + p + 1;
    g->gets.delay = (struct delay *)(g->place + p + 1);
    g->gives.delay = g->gets.delay + p;
    if (!ring_order(c->problem, g->order))
        return false;
    g->block = ring_block(c->problem, g->order);
    if (g->block == 0)
        return false;
    find_places(c->problem, g->place);
    number_blocks(c->problem, g);
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
    return s->count > 0 ? s->count + s->delay[s->delays - 1].late : 0;
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
    int64_t low = 0, high = s->delays;

    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;

        if (s->delay[middle].from + s->delay[middle].late <= r)
            low = middle;
        else
            high = middle;
    }
    const int64_t k = r - s->delay[low].late;
    const int64_t end = low + 1 < s->delays ? s->delay[low + 1].from : s->count;

    return k >= s->delay[low].from && k < end ? k : -1;
}

/* Compute the position of message k of a stream in OUT. */
static void find_block(const struct context *c, const struct stream *s, int64_t k, int64_t *begin,
                       int64_t *length)
{
    const struct ring *const g = (const struct ring *)c->table;
    const int64_t number = s->newest - k < 0 ? s->newest - k + g->blocks : s->newest - k;
    int64_t low = 0, high = c->size;

    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;

        if (g->first[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    const int64_t rank = g->order[low], m = block_bytes(c->problem, rank),
                  i = number - g->first[low];
    const int64_t n = g->first[low + 1] - g->first[low];
    const bool equal = c->problem->equal_blocks;
    const int64_t from = equal ? part_begin(m, 1, n, i) : i * g->block;
    const int64_t to = equal ? part_begin(m, 1, n, i + 1) : i + 1 < n ? from + g->block : m;

    *begin = g->place[rank] + from;
    *length = to - from;
}

static void pipelined_round(const struct context *c, int64_t r, struct round *out)
{
    const struct ring *const g = (const struct ring *)c->table;
    const int64_t gets = message_of(&g->gets, r), gives = message_of(&g->gives, r);
    int64_t begin, length;

    if (r == 0)
        emit_copy(out, BUFFER_OUT, g->place[c->rank], BUFFER_IN, 0,
                  block_bytes(c->problem, c->rank));
    if (gets >= 0) {
        find_block(c, &g->gets, gets, &begin, &length);
        emit_receive(out, g->before, BUFFER_OUT, begin, length);
    }
    if (gives >= 0) {
        find_block(c, &g->gives, gives, &begin, &length);
        emit_send(out, g->after, BUFFER_OUT, begin, length);
    }
}

const struct algorithm algorithm_allgatherv_pipelined_ring = {
    .operation = "allgatherv",
    .name = "pipelined_ring",
    .cost = "(b - min b_i)(alpha + B beta), b_i = max(1, ceil(m_i/B))",
    .parameters = "block_size=BYTES blocks=last_short|equal order=ranks|spread|nodes|both",
    .source = "Traeff et al. 2009, Sections 2.2 to 2.4",
    .prepare = pipelined_prepare,
    .rounds = pipelined_rounds,
    .round = pipelined_round,
};
