/* Building blocks of the algorithms for inter-communicators.
 *
 * Each rank of one group receives all blocks of the other. The larger group has P processes, the
 * smaller one Q. The larger group is divided into Q teams of consecutive ranks; team j belongs to
 * rank j of the smaller group. Of equal groups, the first one counts as the larger.
 */
#pragma once
#include "schedule/schedule.h"

/* Fill the table: the begins of the blocks of the local group and their end, the same for the
 * remote group, and `more` numbers. If the counts of the local group are unknown, only this rank's
 * block has the correct length. */
bool intergroup_prepare(struct context *c, int64_t more);

static inline const int64_t *own_begins(const struct context *c)
{
    return c->table;
}

static inline const int64_t *remote_begins(const struct context *c)
{
    return c->table + c->size + 1;
}

static inline int64_t *intergroup_more(const struct context *c)
{
    return c->table + c->size + 1 + c->problem->remote_size + 1;
}

static inline int64_t own_length(const struct context *c)
{
    return own_begins(c)[c->rank + 1] - own_begins(c)[c->rank];
}

static inline int64_t remote_total(const struct context *c)
{
    return remote_begins(c)[c->problem->remote_size];
}

/* Return the number of the part of `total` in n parts that contains byte i. */
static inline int64_t part_of(int64_t total, int64_t n, int64_t i)
{
    const int64_t each = total / n, larger = total % n, edge = larger * (each + 1);

    return i < edge ? i / (each + 1) : larger + (i - edge) / each;
}

struct piece {
    int64_t begin, length; /* in OUT */
};

/* A ring of processes of the local group, around which each member's piece travels. */
struct circle {
    int size, place; /* this rank's place */
    int (*process)(const struct context *c, int place);
    struct piece (*piece)(const struct context *c, int place);
};

/* Emit one of the rounds 0 .. size - 2. */
void circle_round(const struct context *c, const struct circle *w, int64_t r, struct round *out);
int circle_rank(const struct context *c, int place); /* for a ring of the whole group */

/* Algorithm 2 of Kang et al.: equal shares for all processes (intergroup_kang_v.c). */
bool shares_prepare(struct context *c);
int64_t shares_rounds(const struct context *c);
void shares_round(const struct context *c, int64_t r, struct round *out);
