/* Moves of reduce, allreduce and reduce_scatter: binary tree, halving, binary blocks. */
#include "schedule/algorithms/reductions.h"

struct move move_none(void)
{
    return (struct move){.to = -1, .from = -1};
}

struct range range_whole(const struct context *c)
{
    return (struct range){0, c->problem->bytes};
}

/* ---- moves as steps */

enum buffer work_buffer(const struct context *c)
{
    const bool gets_result = c->algorithm->mode == RESULT_FOR_ALL || c->rank == c->problem->root;

    return gets_result ? BUFFER_OUT : BUFFER_SCRATCH;
}

void moves_round(const struct context *c, int64_t r, struct round *out)
{
    const struct algorithm *const a = c->algorithm;
    const enum buffer work = work_buffer(c);
    const int64_t arrived = work == BUFFER_SCRATCH ? c->problem->bytes : 0;

    if (c->size == 1)
        emit_copy(out, BUFFER_OUT, 0, BUFFER_IN, 0, c->problem->bytes);
    if (r > 0) {
        const struct move before = a->move(c, r - 1);

        if (before.from >= 0 && before.fold != FOLD_STORE)
            emit_reduce(out, work, before.receive.begin, BUFFER_SCRATCH, arrived,
                        before.receive.length, before.fold == FOLD_RIGHT);
    }
    if (r == a->rounds(c) - 1)
        return;
    const struct move m = a->move(c, r);

    if (m.from >= 0 && m.fresh)
        emit_copy(out, work, m.receive.begin, BUFFER_IN, m.receive.begin, m.receive.length);
    if (m.from >= 0 && m.fold == FOLD_STORE)
        emit_message(out, STEP_RECEIVE, m.from, work, m.receive);
    else if (m.from >= 0)
        emit_receive(out, m.from, BUFFER_SCRATCH, arrived, m.receive.length);
    if (m.to >= 0)
        emit_message(out, STEP_SEND, m.to, m.fresh ? BUFFER_IN : work, m.send);
}

/* ---- binary tree */

static int run_holder(int root, int64_t run, int k)
{
    return root >> k == run ? root : (int)(run << k);
}

static bool has_partner(const struct context *c, int k)
{
    const int64_t partner = c->rank >> k ^ 1;

    return partner << k < c->size;
}

static bool is_first_join(const struct context *c, int k)
{
    for (int i = 0; i < k; i++)
        if (has_partner(c, i))
            return false;
    return true;
}

/* Return the move of step k on the way to the root. */
static struct move tree_joining(const struct context *c, int root, int k)
{
    const int64_t run = c->rank >> k, partner = run ^ 1;
    struct move m = move_none();

    if (run_holder(root, run, k) != c->rank || !has_partner(c, k))
        return m;
    const bool root_here = root >> k == run, root_there = root >> k == partner;

    m.send = m.receive = range_whole(c);
    m.fresh = is_first_join(c, k);
    if (root_here || (!root_there && run % 2 == 0)) {
        m.from = run_holder(root, partner, k);
        m.fold = run % 2 == 0 ? FOLD_RIGHT : FOLD_LEFT;
    } else {
        m.to = run_holder(root, partner, k);
    }
    return m;
}

struct move tree_move(const struct context *c, int64_t r)
{
    const int steps = log2_ceiling(c->size);

    if (c->algorithm->mode == RESULT_FOR_ROOT)
        return tree_joining(c, c->problem->root, (int)r);
    if (r < steps)
        return tree_joining(c, 0, (int)r);
    const struct move joining = tree_joining(c, 0, 2 * steps - 1 - (int)r);

    return (struct move){
        .to = joining.from, .from = joining.to, .send = joining.send, .receive = joining.receive};
}

/* ---- halving and doubling */

struct range halving_range(const struct context *c, int x, int k)
{
    const struct problem *const p = c->problem;
    const int64_t parts = INT64_C(1) << log2_floor(c->size);
    int64_t first = 0;

    for (int i = 0; i < k; i++)
        if (x >> i & 1)
            first += parts >> (i + 1);
    return parts_range(p->bytes, p->unit, parts, first, first + (parts >> k));
}

struct move halving_move(const struct context *c, int x, int peer, int k)
{
    return (struct move){.to = peer,
                         .from = peer,
                         .send = halving_range(c, x ^ 1 << k, k + 1),
                         .receive = halving_range(c, x, k + 1),
                         .fold = x >> k & 1 ? FOLD_LEFT : FOLD_RIGHT};
}

struct move doubling_move(const struct context *c, int x, int peer, int k)
{
    const struct move halving = halving_move(c, x, peer, k);

    return (struct move){
        .to = peer, .from = peer, .send = halving.receive, .receive = halving.send};
}

struct move collecting_move(const struct context *c, int x, int root, int peer, int k)
{
    struct move m = doubling_move(c, x, peer, k);

    if (x >> (k + 1) != root >> (k + 1))
        return move_none();
    if ((x >> k & 1) == (root >> k & 1))
        m.to = -1;
    else
        m.from = -1;
    return m;
}

int64_t halving_half(const struct problem *p)
{
    const int64_t parts = INT64_C(1) << log2_floor(p->size);

    return part_begin(p->bytes, p->unit, parts, p->size > 1 ? parts / 2 : 1);
}

/* ---- removed processes */

int removed_count(const struct context *c)
{
    return c->size - (1 << log2_floor(c->size));
}

static int pair_survivor(const struct context *c, int pair)
{
    const int odd = 2 * pair + 1;

    return c->algorithm->mode == RESULT_FOR_ROOT && c->problem->root == odd ? odd : 2 * pair;
}

int survivor_rank(const struct context *c, int rank)
{
    const int removed = removed_count(c);

    if (rank >= 2 * removed)
        return rank - removed;
    return pair_survivor(c, rank / 2) == rank ? rank / 2 : -1;
}

int survivor_process(const struct context *c, int x)
{
    const int removed = removed_count(c);

    return x < removed ? pair_survivor(c, x) : x + removed;
}

int64_t survivors_halving_rounds(const struct context *c)
{
    return log2_floor(c->size) + (removed_count(c) > 0 ? 2 : 0);
}

/* Rank 2i reduces the first half of both vectors and 2i+1 the second; then one of them gets both
 * halves. */
static struct move removing_move(const struct context *c, int64_t r)
{
    const int even = c->rank % 2 == 0;
    struct move m = halving_move(c, c->rank & 1, c->rank ^ 1, 0);

    if (r == 0) {
        m.fresh = true;
    } else if (pair_survivor(c, c->rank / 2) == c->rank) {
        m = (struct move){.to = -1, .from = c->rank ^ 1, .receive = halving_range(c, even, 1)};
    } else {
        m = (struct move){.to = c->rank ^ 1, .from = -1, .send = halving_range(c, !even, 1)};
    }
    return m;
}

static struct move survivors_halving(const struct context *c, int64_t r)
{
    const int removed = removed_count(c), x = survivor_rank(c, c->rank);
    const int k = (int)r - (removed > 0 ? 2 : 0);

    if (k < 0)
        return c->rank < 2 * removed ? removing_move(c, r) : move_none();
    if (x < 0)
        return move_none();
    struct move m = halving_move(c, x, survivor_process(c, x ^ 1 << k), k);

    m.fresh = k == 0 && c->rank >= 2 * removed;
    return m;
}

struct move pair_move(const struct context *c, bool to_even)
{
    struct move m = move_none();

    if (c->rank >= 2 * removed_count(c))
        return m;
    m.send = m.receive = range_whole(c);
    if ((c->rank % 2 == 0) == to_even)
        m.from = c->rank ^ 1;
    else
        m.to = c->rank ^ 1;
    m.fold = to_even ? FOLD_RIGHT : FOLD_STORE;
    m.fresh = to_even;
    return m;
}

struct move halving_doubling_move(const struct context *c, int64_t r)
{
    const int64_t reducing = survivors_halving_rounds(c);
    const int x = survivor_rank(c, c->rank), k = log2_floor(c->size) - 1 - (int)(r - reducing);

    if (r < reducing)
        return survivors_halving(c, r);
    if (k < 0)
        return pair_move(c, false);
    if (x < 0)
        return move_none();
    const int peer = survivor_process(c, x ^ 1 << k);

    if (c->algorithm->mode == RESULT_FOR_ALL)
        return doubling_move(c, x, peer, k);
    return collecting_move(c, x, survivor_rank(c, c->problem->root), peer, k);
}

int64_t halving_doubling_rounds(const struct context *c)
{
    const bool shares = c->algorithm->mode == RESULT_FOR_ALL && removed_count(c) > 0;

    return survivors_halving_rounds(c) + log2_floor(c->size) + shares + 1;
}

/* ---- binary blocks */

struct vector_blocks blocks_of(int size, int rank)
{
    const struct block none = {.levels = -1};
    struct vector_blocks b = {none, none, none};
    int begin = 0;

    for (int k = log2_floor(size); k >= 0; k--) {
        const struct block here = {begin, k};

        if ((size >> k & 1) == 0)
            continue;
        begin += 1 << k;
        if (begin <= rank) {
            b.larger = here;
        } else if (b.own.levels < 0) {
            b.own = here;
        } else {
            b.smaller = here;
            break;
        }
    }
    return b;
}

static int64_t blocks_ratio(const struct vector_blocks *b)
{
    return b->larger.levels < 0 ? 0 : INT64_C(1) << (b->larger.levels - b->own.levels);
}

int64_t blocks_reducing_rounds(const struct context *c)
{
    const struct vector_blocks b = blocks_of(c->size, c->rank);

    return b.own.levels + (b.smaller.levels >= 0) + blocks_ratio(&b);
}

/* Halve inside the block, receive the smaller block's part, then send the parts for the larger
 * block. */
struct move blocks_reducing(const struct context *c, int64_t r)
{
    const struct vector_blocks b = blocks_of(c->size, c->rank);
    const int x = c->rank - b.own.begin;
    struct move m = move_none();

    if (r < b.own.levels) {
        m = halving_move(c, x, b.own.begin + (x ^ 1 << r), (int)r);
        m.fresh = r == 0;
        return m;
    }
    r -= b.own.levels;
    if (b.smaller.levels >= 0 && r-- == 0) {
        m.from = b.smaller.begin + x % (1 << b.smaller.levels);
        m.receive = halving_range(c, x, b.own.levels);
        m.fold = FOLD_RIGHT;
    } else if (r < blocks_ratio(&b)) {
        const int y = x + (int)(r << b.own.levels);

        m.to = b.larger.begin + y;
        m.send = halving_range(c, y, b.larger.levels);
        m.fresh = b.own.levels == 0;
    }
    return m;
}
