/* What reduce, allreduce and reduce_scatter share.
 *
 * Most of these algorithms are a list of moves: in a round a rank sends at most one range of its
 * partial result and receives at most one, which it stores or folds into its own. The partial
 * result lies in `work` at the places of the vector: in OUT where the rank gets the result, else in
 * SCRATCH. What is to be folded arrives behind it in SCRATCH, and is folded at the beginning of the
 * next round.
 */
#pragma once
#include "schedule/schedule.h"

struct range {
    int64_t begin, length;
};

enum fold { FOLD_STORE, FOLD_LEFT, FOLD_RIGHT }; /* what arrives is the left, the right operand */

struct move {
    int to, from; /* -1: nobody */
    struct range send, receive;
    enum fold fold;
    bool fresh; /* the rank's first: it sends from IN, and copies there what it folds into */
};

typedef struct move (*move_function)(const struct context *c, int64_t r);

/* One round of `count` + 1; the last one folds what the last move has brought. */
void moves_round(const struct context *c, enum buffer work, int64_t count, move_function moves,
                 int64_t r, struct round *out);

struct move move_none(void);
struct range range_whole(const struct context *c);

/* ---- recursive halving and doubling: `levels` halvings of the vector, distance doubling
 *
 * After k halvings rank x of a power of two of processes has the part that the lowest k bits of x
 * name: bit 0 chooses the half, bit 1 the quarter, and so on. Both sides of a halving are runs of
 * ranks, so the order of operands is kept. */

struct range halving_range(const struct context *c, int levels, int x, int k);
struct move halving_move(const struct context *c, int levels, int x, int peer, int k);
struct move doubling_move(const struct context *c, int levels, int x, int peer, int k);
/* The gather to `root`: nothing for who has sent its part in an earlier step. */
struct move gathering_move(const struct context *c, int levels, int x, int root, int peer, int k);
int64_t halving_half(const struct problem *p); /* bytes of the larger half */

/* ---- any number of processes: of the first 2r ranks one of each pair is removed
 *
 * 2^levels processes go on, the even ones of the pairs and all the others; with `root` (else -1) a
 * root among the removed ones changes roles with its partner. */

int removed_count(const struct context *c);
int survivor_rank(const struct context *c, int root, int rank); /* -1: removed */
int survivor_process(const struct context *c, int root, int x);
/* The first two rounds where processes are removed, and the halvings after them. */
int64_t survivors_halving_rounds(const struct context *c);
struct move survivors_halving(const struct context *c, int root, int64_t r);

/* ---- binary blocks */

struct block {
    int begin, levels; /* first rank; 2^levels processes; -1: no such block */
};

struct blocks {
    struct block own, larger, smaller; /* the rank's, the one before it and the one after it */
};

struct blocks blocks_of(int size, int rank);
int64_t blocks_reducing_rounds(const struct context *c);
struct move blocks_reducing(const struct context *c, int64_t r);

/* ---- pairwise reduce-scatter, in rank order
 *
 *   round i: own block of rank-i's vector comes, rank+i's block goes     (i = 1 .. p-1)
 *
 * What comes from lower ranks is put before the own operand, from rank-1 down to 0; then come the
 * ranks p-1 down to rank+1, which make a second partial result: nothing but one more block of
 * scratch memory is needed to keep the order. The blocks arrive in two places by turns. */

struct pairwise {
    enum buffer into; /* where the own block's result grows */
    int64_t offset;
    int64_t scratch; /* three blocks from here in SCRATCH are used */
    int64_t (*begin)(const struct context *c, int i); /* of rank i's block; of p: the end */
};

/* Rounds 0 .. p-1; the last one has only local steps. */
void pairwise_round(const struct context *c, const struct pairwise *w, int64_t r,
                    struct round *out);
int64_t equal_begin(const struct context *c, int i); /* p parts of the vector */
int64_t equal_largest(const struct problem *p);

/* ---- what the entries of reduce and allreduce share: the functions are each file's own */

#define BINARY_BLOCKS                                                                              \
    .name = "binary_blocks", .keeps_order = true,                                                  \
    .cost =                                                                                        \
        "2 lg p alpha + (1 - 1/p)(2 n beta + n gamma); p not a power of two: more by the ratios "  \
        "of successive blocks, a 2^f block sends 2^(e-f) messages of n/2^e to its 2^e block",      \
    .source = "Rabenseifner and Adamidis 2004, Section 3.6", .rounds = blocks_rounds,              \
    .round = blocks_round

#define RING                                                                                       \
    .name = "ring", .keeps_order = true, .cost = "2(p-1) alpha + (1 - 1/p)(2 n beta + n gamma)",   \
    .source = "Rabenseifner and Adamidis 2004, Section 3.7", .rounds = ring_rounds,                \
    .scratch = ring_scratch, .round = ring_round

#define BINARY_TREE                                                                                \
    .name = "binary_tree", .keeps_order = true,                                                    \
    .source = "Rabenseifner and Adamidis 2004, Section 3.3", .rounds = tree_rounds,                \
    .round = tree_round

#define HALVING_DOUBLING                                                                           \
    .name = "halving_doubling", .keeps_order = true,                                               \
    .source = "Rabenseifner and Adamidis 2004, Section 3.5", .rounds = halving_doubling_rounds,    \
    .round = halving_doubling_round
