/* Building blocks of the algorithms for inter-communicators.
 *
 * Each rank of one group receives all blocks of the other. The larger group has P processes, the
 * smaller one Q. The larger group is divided into Q teams of consecutive ranks; team j belongs to
 * rank j of the smaller group. Of equal groups, the first one counts as the larger.
 */
#pragma once
#include "schedule/algorithms/building_blocks.h"
#include "schedule/schedule.h"

/* Fill the table: the begins of the blocks of the local group and their end, and the same for the
 * remote group. If the counts of the local group are unknown, only this rank's block has the
 * correct length. intergroup_prepare_more adds space for `more` numbers. */
bool intergroup_prepare(struct context *c);
bool intergroup_prepare_more(struct context *c, int64_t more);

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

static inline struct range remote_block(const struct context *c, int rank)
{
    return range_at(remote_begins(c), rank);
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

/* Algorithm 2 of Kang et al.: equal shares for all processes (intergroup_kang_v.c). */
bool shares_prepare(struct context *c);
int64_t shares_rounds(const struct context *c);
void shares_round(const struct context *c, int64_t r, struct round *out);
