/* Building blocks of reduce, allreduce and reduce_scatter (reductions.c).
 *
 * Most of these algorithms are a list of moves. In each round a rank sends and receives at most one
 * range of the partial result. It stores the received range or combines it with its own. The
 * partial result is in `work` at the positions of the vector: in OUT if the rank gets the result,
 * otherwise in SCRATCH. A received operand is stored behind it in SCRATCH and combined at the start
 * of the next round.
 */
#pragma once
#include "schedule/algorithms/building_blocks.h"

/* store the received data, or combine it as the left or the right operand */
enum fold { FOLD_STORE, FOLD_LEFT, FOLD_RIGHT };

struct move {
    int to, from; /* -1 for none */
    struct range send, receive;
    enum fold fold;
    /* first move of the rank: it sends from IN, and copies from IN the range with which it
     * combines */
    bool fresh;
};

/* modes of an algorithm: all ranks get the result, or only the root */
enum result { RESULT_FOR_ALL, RESULT_FOR_ROOT };
enum buffer work_buffer(const struct context *c);

/* Emit the rank's move in round r; the last round combines the data of the last move. */
void moves_round(const struct context *c, int64_t r, struct round *out);

struct move move_none(void);
struct range range_whole(const struct context *c);

/* ---- binary tree: step k joins the runs of 2^k ranks in pairs. The partial result of a run is on
 * its first rank, but on the root for its run. If all ranks get the result, it returns from rank 0
 * the same way. */

struct move tree_move(const struct context *c, int64_t r);

/* ---- recursive halving and doubling: floor(lg p) halvings of the vector, with doubling distance
 *
 * After k halvings, rank x has the part that the lowest k bits of x select. Bit 0 selects the half,
 * bit 1 the quarter, and so on. Both sides of a halving are runs of consecutive ranks, so the order
 * of operands is preserved. The number of processes is a power of two. */

struct range halving_range(const struct context *c, int x, int k);
struct move halving_move(const struct context *c, int x, int peer, int k);
struct move doubling_move(const struct context *c, int x, int peer, int k);
/* Collect the parts at `root`. The move is empty for a rank that sent its part in an earlier
 * step. */
struct move collecting_move(const struct context *c, int x, int root, int peer, int k);
int64_t halving_half(const struct problem *p); /* bytes of the larger half */

/* ---- any number of processes: one rank of each pair among the first 2r ranks is removed
 *
 * 2^floor(lg p) processes remain: the even ranks of the pairs, and all others. If the root of a
 * reduction would be removed, it exchanges roles with its partner. */

int removed_count(const struct context *c);
int survivor_rank(const struct context *c, int rank); /* -1 if the rank is removed */
int survivor_process(const struct context *c, int x);
/* Send the whole vector between a removed rank and its partner, in one direction. */
struct move pair_move(const struct context *c, bool to_even);
/* The number of rounds that remove processes, and of the halvings after them. */
int64_t survivors_halving_rounds(const struct context *c);
/* Reduce-scatter by halving, then the way back. */
struct move halving_doubling_move(const struct context *c, int64_t r);
int64_t halving_doubling_rounds(const struct context *c);

/* ---- binary blocks */

struct block {
    /* first rank; log2 of the number of processes, or -1 if the block does not exist */
    int begin, levels;
};

struct vector_blocks {
    struct block own, larger, smaller; /* the rank's block, its predecessor and its successor */
};

struct vector_blocks blocks_of(int size, int rank);
int64_t blocks_reducing_rounds(const struct context *c);
struct move blocks_reducing(const struct context *c, int64_t r);

/* ---- pairwise reduce-scatter, in rank order (pairwise.c)
 *
 *    round i: receive the own block of rank-i's vector, send rank+i's block     (i = 1 .. p-1)
 *
 * Data from lower ranks is combined as the left operand, from rank-1 down to 0. Then the ranks p-1
 * down to rank+1 form a second partial result. So preserving the order needs only one more block of
 * scratch memory. The received blocks alternate between two locations. */

struct pairwise {
    enum buffer into; /* destination of the own block's result */
    int64_t offset;
    int64_t scratch; /* uses three blocks of SCRATCH from here */
    struct range (*block)(const struct context *c, int rank);
};

/* Emit one of the rounds 0 .. p-1; the last one has only local steps. */
void pairwise_round(const struct context *c, const struct pairwise *w, int64_t r,
                    struct round *out);
/* Pairwise reduce-scatter, then a ring of the blocks, or a message from each rank to the root. */
void pairwise_ring_round(const struct context *c, int64_t r, struct round *out);
struct range equal_block(const struct context *c, int i); /* of the vector in p equal blocks */
int64_t equal_largest(const struct problem *p);

/* ---- common members of the entries of reduce and allreduce; each file defines blocks_rounds,
 * blocks_move and pairwise_scratch */

#define BINARY_BLOCKS                                                                              \
    .keeps_order = true,                                                                           \
    .cost =                                                                                        \
        "2 lg p alpha + (1 - 1/p)(2 n beta + n gamma); p not a power of two: more by the ratios "  \
        "of successive blocks, a 2^f block sends 2^(e-f) messages of n/2^e to its 2^e block",      \
    .source = "Rabenseifner and Adamidis 2004, Section 3.6", .rounds = blocks_rounds,              \
    .round = moves_round, .move = blocks_move

#define RING                                                                                       \
    .keeps_order = true, .cost = "2(p-1) alpha + (1 - 1/p)(2 n beta + n gamma)",                   \
    .source = "Rabenseifner and Adamidis 2004, Section 3.7", .rounds = rounds_two_rings,           \
    .scratch = pairwise_scratch, .round = pairwise_ring_round

#define BINARY_TREE                                                                                \
    .keeps_order = true, .source = "Rabenseifner and Adamidis 2004, Section 3.3",                  \
    .round = moves_round, .move = tree_move

#define HALVING_DOUBLING                                                                           \
    .keeps_order = true, .source = "Rabenseifner and Adamidis 2004, Section 3.5",                  \
    .rounds = halving_doubling_rounds, .round = moves_round, .move = halving_doubling_move
