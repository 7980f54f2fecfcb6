/* Schedules: what each rank does in one collective algorithm, round by round.
 *
 * An algorithm is a pure function of (context, round) to steps. It knows no MPI, allocates nothing
 * but its context and stores no schedule: the same generator is executed (execute.c), proved,
 * simulated and drawn (mpiprof/model). Threads: everything here is const after schedule_prepare.
 *
 * Buffers: IN and OUT are the operation's, packed (a v-form's blocks follow each other in rank
 * order), SCRATCH is as large as the algorithm says. Offsets and lengths are bytes, multiples of
 * `unit` in reductions.
 *
 *   operation        IN                      OUT
 *   alltoall         a block for each rank   a block from each rank
 *   bcast            -                       the message: given at the root, made elsewhere
 *   allgather, gather  the own block         all blocks in rank order (gather: at the root)
 *   scatter          all blocks at the root  the own block
 *   reduce, allreduce, reduce_scatter   the own vector   the result, or the own share of it
 *   allgather on an inter-communicator  the own block    all blocks of the remote group
 *
 * A round: first its local steps in their order, on what earlier rounds have brought; then all of
 * its messages at once. It ends when its messages have left and arrived. Messages between two ranks
 * match in the order in which they are emitted. With MPI_IN_PLACE the own block of IN is a part of
 * OUT (allgather, gather, scatter), or IN is OUT (reductions): a copy onto itself is nothing.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum step_kind { STEP_SEND, STEP_RECEIVE, STEP_COPY, STEP_REDUCE, STEP_BARRIER };
enum buffer { BUFFER_IN, BUFFER_OUT, BUFFER_SCRATCH };
enum step_flag {
    STEP_TOKEN = 1,  /* an empty message, which orders */
    STEP_REMOTE = 2, /* the peer is a rank of the remote group */
    STEP_RIGHT = 4,  /* REDUCE: target = target op source (else source op target); source is lost */
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
    bool all_parts; /* empty ones are sent, too, as tokens */
};

struct problem {
    int size, remote_size; /* ranks of the own group, and of the remote one (0: none) */
    int root;
    int64_t bytes, remote_bytes;  /* a regular form's block, or the vector or message */
    int64_t unit;                 /* bytes of an element in reductions, else 1 */
    const int64_t *counts;        /* bytes by rank: allgatherv, reduce_scatter; at the root gatherv
                                     and scatterv (elsewhere `bytes` is the own block, the only
                                     one known there); alltoallv: what this rank sends */
    const int64_t *remote_counts; /* inter-communicators: the remote group's; alltoallv: receives */
    const int *nodes;             /* the node of each rank; NULL: one rank a node */
    double alpha, beta;           /* ns and ns a byte, where a parameter is computed from them */
    int64_t block_size;           /* 0: the algorithm's own choice */
    int order;                    /* of a ring: enum ring_order */
    bool equal_blocks;            /* pipelined ring: blocks of equal size, not the last one short */
    int late;                     /* the rank that is expected to come last */
    bool first_group;             /* inter-communicators: breaks the symmetry of equal groups */
};
enum ring_order { ORDER_RANKS, ORDER_SPREAD, ORDER_NODES, ORDER_BOTH };

struct context {
    const struct problem *problem;
    int rank, size;
    bool all_parts; /* of a reduction or broadcast; `round` has what that means */
    int64_t *table; /* the algorithm's own, made by prepare, freed by schedule_free */
};

struct algorithm {
    const char *operation, *name;
    bool inter;        /* for inter-communicators */
    bool keeps_order;  /* reductions: operands in rank order, so any operation will do */
    bool direct;       /* every message is its sender's own and ends in its receiver's OUT */
    bool needs_counts; /* allgatherv on inter-communicators, where a rank knows of its own group
                          only its own count: the executor first allgathers those in the group,
                          8 bytes each, and they stand in problem->counts */
    const char *restrictions, *cost, *parameters, *source;
    bool (*applies)(const struct problem *p); /* by what all ranks know; NULL: always */
    bool (*prepare)(struct context *c);       /* fills c->table; NULL: nothing to prepare */
    int64_t (*rounds)(const struct context *c);
    int64_t (*scratch)(const struct problem *p); /* bytes, the same on all ranks; NULL: none */
    void (*round)(const struct context *c, int64_t r, struct round *out);
    /* Of this rank: the rounds at its begin that are over when the rank `late` comes; NULL: it makes
     * no difference who is late. */
    int64_t (*early)(const struct context *c);
    /* A broadcast's alone. Its opening: the rounds in which each rank gets its first message, over a
     * tree, when the message is not cut by its size; and in how many blocks or parts it is cut
     * (NULL: 1). */
    int64_t (*opening)(const struct context *c);
    int64_t (*blocks)(const struct problem *p);
};

bool schedule_prepare(const struct algorithm *a, struct context *c, const struct problem *p,
                      int rank);
void schedule_round(const struct algorithm *a, const struct context *c, int64_t r,
                    struct round *out);
void schedule_free(struct context *c);
int64_t schedule_scratch_of(const struct algorithm *a, const struct problem *p);

/* ---- for generators: an empty message or copy is left out, alike on both sides; but in reductions
 * and broadcasts an empty part becomes a token */

void emit_send(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length);
void emit_receive(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length);
void emit_remote_send(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length);
void emit_remote_receive(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length);
void emit_token_send(struct round *r, int peer);
void emit_token_receive(struct round *r, int peer);
void emit_copy(struct round *r, enum buffer to, int64_t offset, enum buffer from,
               int64_t source_offset, int64_t length);
void emit_reduce(struct round *r, enum buffer into, int64_t offset, enum buffer from,
                 int64_t source_offset, int64_t length, bool source_is_right);
void emit_barrier(struct round *r);

static inline int modulo(int64_t a, int p)
{
    return (int)((a % p + p) % p);
}

/* The largest k with 2^k <= n, for n >= 1. */
static inline int log2_floor(int64_t n)
{
    int k = 0;

    while (n >>= 1)
        k++;
    return k;
}

static inline int log2_ceiling(int64_t n)
{
    return n <= 1 ? 0 : log2_floor(n - 1) + 1;
}

static inline bool is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* Where part i of n begins when `total` is cut into n parts as equal as whole units allow, the
 * larger ones first; part n is the end. */
int64_t part_begin(int64_t total, int64_t unit, int64_t n, int64_t i);
