/* A schedule without the late rank: the other ranks run an algorithm for one process fewer. */
#include "schedule/algorithms/building_blocks.h"

bool late_here(const struct context *c)
{
    return c->rank == c->problem->late;
}

int late_next(const struct context *c)
{
    return (c->problem->late + 1) % c->size;
}

bool late_applies(const struct problem *p)
{
    return p->late >= 0 && p->late < p->size;
}

static int without_late(const struct context *c, int rank)
{
    return rank - (rank > c->problem->late);
}

void late_others(struct others *o, const struct context *c, const struct algorithm *a, int root)
{
    o->problem = *c->problem;
    o->problem.size--;
    o->problem.root = without_late(c, root);
    o->problem.nodes = NULL;
    o->context = (struct context){.problem = &o->problem,
                                  .algorithm = a,
                                  .rank = without_late(c, c->rank),
                                  .size = o->problem.size,
                                  .all_parts = c->all_parts,
                                  .table = c->table};
}

/* Emit round r of the other ranks' algorithm, with the ranks of the whole communicator. */
void late_others_round(const struct context *c, const struct algorithm *a, int root, int64_t r,
                       struct round *out)
{
    const int first = out->count;
    struct others o;

    late_others(&o, c, a, root);
    a->round(&o.context, r, out);
    for (int i = first; i < out->count; i++)
        if (out->steps[i].kind == STEP_SEND || out->steps[i].kind == STEP_RECEIVE)
            out->steps[i].peer += out->steps[i].peer >= c->problem->late;
}

int64_t late_others_rounds(const struct context *c, const struct algorithm *a, int root)
{
    struct others o;

    if (late_here(c))
        return 0;
    late_others(&o, c, a, root);
    return a->rounds(&o.context);
}
