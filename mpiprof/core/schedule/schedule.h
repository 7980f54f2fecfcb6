/* Schedules: the actions of each rank in one collective algorithm, round by round.
 *
 * An algorithm is a pure function from (context, round) to steps. It is independent of MPI,
 * allocates only its context, and stores no schedule. The same generator is executed
 * (executor/execute.c), verified, simulated and drawn (mpiprof/collectives).
 *
 * Threads: everything here is constant after schedule_prepare.
 *
 * Buffers: IN and OUT belong to the operation and are packed (the blocks of a v-form follow each
 * other in rank order). SCRATCH has the size that the algorithm requests. Offsets and lengths are
 * in bytes; in reductions they are multiples of `unit`.
 *
 *    operation          IN                        OUT
 *    alltoall           one block for each rank   one block from each rank
 *    bcast              -                         the message (input at the root)
 *    allgather, gather  this rank's block         all blocks in rank order (gather: at the root)
 *    scatter            all blocks at the root    this rank's block
 *    reductions         this rank's vector        the result, or this rank's share of it
 *    allgather on an inter-communicator
 *                       this rank's block         all blocks of the remote group
 *
 * Round: a round first runs its local steps in order, on data from earlier rounds. It then posts
 * all its messages at once, and ends when they are complete. Messages between two ranks match in
 * the order in which they are emitted. With MPI_IN_PLACE, this rank's block of IN is a part of OUT
 * (allgather, gather, scatter), or IN is OUT (reductions). A copy from a location to itself then
 * has no effect.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum step_kind { STEP_SEND, STEP_RECEIVE, STEP_COPY, STEP_REDUCE, STEP_BARRIER };
enum buffer { BUFFER_IN, BUFFER_OUT, BUFFER_SCRATCH };
enum step_flag {
    STEP_TOKEN = 1,  /* an empty message for synchronisation */
    STEP_REMOTE = 2, /* the peer is in the remote group */
    /* reduction: target = target op source, otherwise source op target. Destroys source. */
    STEP_RIGHT = 4,
};

/* Bytes of a buffer. */
struct range {
    int64_t begin, length;
};

struct step {
    int64_t offset, length, source_offset;
    int32_t peer;
    uint8_t kind, buffer, source, flags;
};

struct round {
    struct step *steps;
    int count, room;
    bool failed;    /* out of memory */
    bool all_parts; /* empty parts are sent too, as tokens */
};

struct problem {
    /* ranks of the local and of the remote group (0 for none) */
    int size, remote_size;
    int root;
    int64_t bytes, remote_bytes; /* block of a regular form, or vector or message */
    int64_t unit;                /* bytes of an element in reductions, otherwise 1 */
    /* Bytes by rank. allgatherv, reduce_scatter: of all ranks. gatherv, scatterv: only at the root;
     * elsewhere `bytes` is this rank's block. alltoallv: the bytes that this rank sends. */
    const int64_t *counts;
    /* inter-communicators: of the remote group. alltoallv: bytes to receive. */
    const int64_t *remote_counts;
    const int *nodes;   /* node of each rank; NULL for one rank per node */
    double alpha, beta; /* ns and ns per byte, for parameters that depend on them */
    int64_t block_size; /* 0 for the algorithm's default */
    int order;          /* order of a ring: enum ring_order */
    bool equal_blocks;  /* pipelined ring: equal blocks instead of a short last one */
    int late;           /* rank that is expected to arrive last */
    bool first_group;   /* inter-communicators: breaks the symmetry of equal groups */
};
enum ring_order { ORDER_RANKS, ORDER_SPREAD, ORDER_NODES, ORDER_BOTH };

struct context {
    const struct problem *problem;
    const struct algorithm *algorithm;
    int rank, size;
    bool all_parts; /* set for reductions and broadcasts, see struct round */
    int64_t *table; /* data of the algorithm, allocated by prepare, freed by schedule_free */
};

struct move; /* algorithms/reductions.h */
struct algorithm {
    const char *operation, *name;
    int mode;   /* distinguishes algorithms that share functions */
    bool inter; /* for inter-communicators */
    /* reductions: operands in rank order, so any operation is allowed */
    bool keeps_order;
    bool direct; /* every message carries only its sender's data and ends in its receiver's OUT */
    /* allgatherv on inter-communicators: a rank knows only its own count in the local group. The
     * executor first allgathers these counts, 8 bytes each, into problem->counts. */
    bool needs_counts;
    const char *restrictions, *cost, *parameters, *source;
    /* depends only on facts that all ranks know; NULL for always */
    bool (*applies)(const struct problem *p);
    bool (*prepare)(struct context *c); /* fills c->table; NULL if there is nothing to prepare */
    int64_t (*rounds)(const struct context *c);
    int64_t (*scratch)(const struct problem *p); /* bytes, equal on all ranks; NULL for none */
    void (*round)(const struct context *c, int64_t r, struct round *out);
    /* if `round` is moves_round: this rank's move in round r; the last round has none */
    struct move (*move)(const struct context *c, int64_t r);
    /* Return the number of first rounds on this rank that are complete before the rank `late`
     * arrives. NULL if the late rank does not matter. */
    int64_t (*early)(const struct context *c);
    /* Only for a broadcast. The opening is the rounds in which each rank receives its first
     * message, over a tree, if the message is not split. `blocks` returns the number of blocks or
     * parts (NULL for 1). */
    int64_t (*opening)(const struct context *c);
    int64_t (*blocks)(const struct problem *p);
};

bool schedule_prepare(const struct algorithm *a, struct context *c, const struct problem *p,
                      int rank);
void schedule_round(const struct algorithm *a, const struct context *c, int64_t r,
                    struct round *out);
void schedule_free(struct context *c);
int64_t schedule_scratch_of(const struct algorithm *a, const struct problem *p);

/* ---- for generators. An empty message or copy is omitted on both sides. In reductions and
 * broadcasts an empty part becomes a token. */

void emit_send(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length);
void emit_receive(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length);
/* kind: STEP_SEND or STEP_RECEIVE */
void emit_message(struct round *r, enum step_kind kind, int peer, enum buffer b,
                  struct range range);
void emit_remote(struct round *r, enum step_kind kind, int peer, enum buffer b, struct range range);
void emit_token(struct round *r, enum step_kind kind, int peer);
void emit_copy(struct round *r, enum buffer to, int64_t offset, enum buffer from,
               int64_t source_offset, int64_t length);
void emit_reduce(struct round *r, enum buffer into, int64_t offset, enum buffer from,
                 int64_t source_offset, int64_t length, bool source_is_right);
void emit_barrier(struct round *r);

static inline int modulo(int64_t a, int p)
{
    return (int)((a % p + p) % p);
}

/* Return the largest k with 2^k <= n, for n >= 1. */
static inline int log2_floor(int64_t n)
{
    return 63 - __builtin_clzll((unsigned long long)n);
}

static inline int log2_ceiling(int64_t n)
{
    return n <= 1 ? 0 : log2_floor(n - 1) + 1;
}

static inline bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* Return the begin of part i of n, if `total` is split into n parts that are equal up to one unit,
 * the larger ones first. Part n is the end. */
int64_t part_begin(int64_t total, int64_t unit, int64_t n, int64_t i);

/* Return the parts first .. last - 1. */
static inline struct range parts_range(int64_t total, int64_t unit, int64_t n, int64_t first,
                                       int64_t last)
{
    const int64_t begin = part_begin(total, unit, n, first);

    return (struct range){begin, part_begin(total, unit, n, last) - begin};
}
