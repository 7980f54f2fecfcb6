/* Rounds, blocks, rings and circulant graphs, for several algorithms. */
#pragma once
#include <stddef.h>

#include "schedule/schedule.h"

/* ---- numbers of rounds, scratch memory and restrictions
 *
 * A tree has ceil(lg p) rounds, and a ring has p - 1, but at least 1 for the copy of this rank's
 * data. */

static inline int64_t rounds_one(const struct context *c)
{
    (void)c;
    return 1;
}

static inline int64_t rounds_size(const struct context *c)
{
    return c->size;
}

static inline int64_t rounds_ring(const struct context *c)
{
    return c->size > 1 ? c->size - 1 : 1;
}

static inline int64_t rounds_two_rings(const struct context *c)
{
    return c->size > 1 ? 2 * (int64_t)c->size - 2 : 1;
}

static inline int64_t rounds_tree(const struct context *c)
{
    return log2_ceiling(c->size);
}

static inline int64_t rounds_tree_and_one(const struct context *c)
{
    return rounds_tree(c) + 1;
}

static inline int64_t rounds_two_trees(const struct context *c)
{
    return 2 * rounds_tree(c);
}

static inline int64_t rounds_two_trees_and_one(const struct context *c)
{
    return 2 * rounds_tree(c) + 1;
}

static inline int64_t scratch_whole(const struct problem *p)
{
    return p->bytes;
}

static inline bool size_is_power_of_two(const struct problem *p)
{
    return is_power_of_two(p->size);
}

/* ---- blocks of ranks, one after the other in rank order (building_blocks.c) */

static inline int64_t block_bytes(const struct problem *p, int64_t rank)
{
    return p->counts != NULL ? p->counts[rank] : p->bytes;
}

/* Return blocks first .. last - 1. */
static inline struct range blocks_range(const int64_t *begins, int64_t first, int64_t last)
{
    return (struct range){begins[first], begins[last] - begins[first]};
}

static inline struct range range_at(const int64_t *begins, int64_t i)
{
    return blocks_range(begins, i, i + 1);
}

/* Fill begins[0 .. size] with the begins of blocks of the lengths `counts` (NULL for `each`), and
 * their end. Returns the address behind it. */
int64_t *begins_fill(int64_t *begins, int size, const int64_t *counts, int64_t each);
int64_t counts_sum(int size, const int64_t *counts, int64_t each);
bool table_allocate(struct context *c, int64_t numbers); /* false without memory */
bool begins_prepare(struct context *c); /* fills the table with the begins of the blocks */
/* Without a table, all blocks have the same length. */
struct range block_range(const struct context *c, int rank);
/* Return the last of `count` ascending values that is at most `limit`, which values[0] is. */
int64_t find_last(const int64_t *values, int64_t count, int64_t limit);

/* ---- rings in which the block of each member travels around (building_blocks.c) */

struct block_ring {
    int size, position; /* position: of this rank */
    /* member at a position; NULL if positions are ranks */
    int (*rank_at)(const struct context *c, int position);
    struct range (*block)(const struct context *c, int position); /* in OUT */
};

/* Emit one of the rounds 0 .. size - 2. */
void block_ring_round(const struct context *c, const struct block_ring *w, int64_t r,
                      struct round *out);
/* The same in the ring of all ranks. */
void ring_round(const struct context *c, struct range (*block)(const struct context *c, int rank),
                int64_t r, struct round *out);

/* ---- pieces of unequal length, which a ring or a chain passes on in blocks, so that no step waits
 * for the largest piece (pieces.c). problem->block_size replaces the best size. */

struct pieces {
    int64_t *first; /* size + 1 numbers: the first block of each piece, and their end */
    struct block_ring ring;
};

/* Fill `first`. Returns false if memory is insufficient. */
bool pieces_prepare(const struct pieces *s, const struct context *c);
/* A process first sends its own blocks, the last one first, then those that it received. */
int64_t pieces_ring_rounds(const struct pieces *s);
void pieces_ring_round(const struct pieces *s, const struct context *c, int64_t r,
                       struct round *out);
/* Chain to position 0: return the block that a position sends in a round, of length 0 for none. */
int64_t pieces_chain_rounds(const struct pieces *s);
struct range pieces_chain_block(const struct pieces *s, const struct context *c, int64_t position,
                                int64_t r);

/* ---- ring of the pipelined allgatherv */

/* Fill order[position] with the ranks of a ring according to problem->order. Returns false if there
 * is no memory. */
bool ring_order(const struct problem *p, int64_t *order);

/* Return the block size of the pipelined ring with its ranks in `order`: the given size, or the
 * best one. Returns 0 if memory is insufficient. */
int64_t ring_block(const struct problem *p, const int64_t *order);

/* ---- broadcast of blocks from process 0 over a circulant graph (bcast_circulant.c) */

enum { CIRCULANT_MOST = 32 }; /* for up to 2^31 processes */

struct circulant { /* schedule of process v, numbered from the root */
    int64_t v;
    int q; /* ceil(lg p) */
    /* idle: rounds that are skipped at the start, so that the last phase is complete */
    int64_t blocks, idle;
    int64_t skip[CIRCULANT_MOST + 1], gets[CIRCULANT_MOST], gives[CIRCULANT_MOST];
};
struct circulant_round {
    int64_t from, to;
    int64_t gets, gives; /* block numbers; -1 for none */
};

void circulant_fill(struct circulant *s, int size, int64_t v, int64_t blocks);
/* Store the schedule in the table. Returns false without memory. */
bool circulant_allocate(struct context *c, int64_t v, int64_t blocks);
const struct circulant *circulant_of(const struct context *c);
int64_t circulant_rounds(const struct context *c);
struct circulant_round circulant_at(const struct circulant *s, int64_t r);
