/* Arithmetic of binomial trees and block sizes for the rooted operations.
 *
 * Process numbers are relative to the root, which is 0. Process v is the parent of v + 2^k for all
 * 2^k below its lowest set bit. Its subtree is the range v .. v + low_bit(v) - 1, cut at p:
 *
 *        0               p = 7: 0 has the children 4, 2 and 1, with 3, 2 and 1 processes
 *      / | \
 *     4  2  1
 *    /|  |
 *   6 5  3
 */
#pragma once
#include "schedule/schedule.h"

static inline int relative_rank(const struct context *c)
{
    return modulo((int64_t)c->rank - c->problem->root, c->size);
}

static inline int absolute_rank(const struct context *c, int64_t v)
{
    return modulo(v + c->problem->root, c->size);
}

/* For the root, return the power of two that spans all processes. */
static inline int64_t low_bit(const struct context *c, int64_t v)
{
    return v == 0 ? INT64_C(1) << log2_ceiling(c->size) : v & -v;
}

static inline int64_t subtree_size(const struct context *c, int64_t v)
{
    const int64_t bit = low_bit(c, v);

    return bit < c->size - v ? bit : c->size - v;
}

/* Return the largest b with b * b <= a. */
static inline int64_t integer_root(double a)
{
    int64_t root = 0;

    for (int64_t bit = INT64_C(1) << 30; bit > 0; bit >>= 1)
        if ((double)(root + bit) * (double)(root + bit) <= a)
            root += bit;
    return root;
}

/* Return the block size that minimises (bytes / B + more)(alpha + B beta), or the requested one.
 * The result is at most `largest`. */
static inline int64_t pipeline_block(const struct problem *p, int64_t bytes, double more,
                                     int64_t largest)
{
    enum { UNMEASURED = 32768 }; /* used by Traeff et al. in most experiments */
    int64_t block = UNMEASURED;

    if (p->block_size > 0)
        block = p->block_size;
    else if (more <= 0)
        block = largest;
    else if (p->alpha > 0 && p->beta > 0)
        block = integer_root((double)bytes * p->alpha / (p->beta * more));
    if (block > largest)
        block = largest;
    return block > 0 ? block : 1;
}

/* Emit the message of a part of OUT to process v, or from it. */
static inline void process_message(const struct context *c, enum step_kind kind, int64_t v,
                                   struct range range, struct round *out)
{
    emit_message(out, kind, absolute_rank(c, v), BUFFER_OUT, range);
}

/* Return block i of a message in n equal blocks. */
static inline struct range message_block(const struct context *c, int64_t n, int64_t i)
{
    return parts_range(c->problem->bytes, 1, n, i, i + 1);
}

static inline int64_t blocks_of(int64_t bytes, int64_t block)
{
    return bytes > 0 ? (bytes - 1) / block + 1 : 0;
}
