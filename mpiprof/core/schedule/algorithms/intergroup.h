/* What the algorithms for inter-communicators share.
 *
 * Two groups; every rank of one gets all blocks of the other. Of the larger group, P processes, the
 * smaller one, Q processes, makes Q teams of consecutive ranks: team j belongs to rank j of the
 * smaller group. Equal groups: the first one counts as the larger.
 */
#pragma once
#include "schedule/schedule.h"

/* The table: where the blocks of each rank of the own group begin, and the end; then those of the
 * remote group; then `more` numbers. Where the own group's counts are not known, only the own
 * block's length is right. */
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

/* Which of n parts of `total` (see part_begin, unit 1) has number i. */
static inline int64_t part_of(int64_t total, int64_t n, int64_t i)
{
    const int64_t each = total / n, larger = total % n, edge = larger * (each + 1);

    return i < edge ? i / (each + 1) : larger + (i - edge) / each;
}

struct piece {
    int64_t begin, length; /* in OUT */
};

/* A ring of processes of the own group, on which every member's piece goes around. */
struct circle {
    int size, place; /* the own place */
    int (*process)(const struct context *c, int place);
    struct piece (*piece)(const struct context *c, int place);
};

/* Rounds 0 .. size - 2. */
void circle_round(const struct context *c, const struct circle *w, int64_t r, struct round *out);
int circle_rank(const struct context *c, int place); /* for a circle of the whole group */

/* Kang's Algorithm 2: equal shares for all (intergroup_kang_v.c). */
bool shares_prepare(struct context *c);
int64_t shares_rounds(const struct context *c);
void shares_round(const struct context *c, int64_t r, struct round *out);
