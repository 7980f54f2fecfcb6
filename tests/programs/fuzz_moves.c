/* Random collectives (fuzz_collectives.c): data movement. All ranks can compute each rank's
 * contribution. */
#include "fuzz.h"

void broadcast(struct thread *t, struct comm *c)
{
    const int root = (int)draw(t, (uint32_t)c->size), n = draw_count(t, BYTES / 4);
    const int later = draw(t, 8) == 0;
    struct buffer b = buffer_make(n, own_layout(t));
    MPI_Request r;

    if (c->rank == root)
        fill(t, &b, 0, n, root, 0);
    if (later) {
        MPI_Ibcast(b.start, n, layouts[b.layout], root, c->comm, &r);
        wait_for(&r);
    } else {
        MPI_Bcast(b.start, n, layouts[b.layout], root, c->comm);
    }
    check(t, "bcast", &b, 0, n, root, 0);
    buffer_end(t, "bcast's gap", &b);
}

void gather(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0, root = (int)draw(t, (uint32_t)c->size);
    const int in_place = draw(t, 3) == 0 && c->rank == root;
    const struct shares s = shares_draw(t, c->size, v);
    const int mine = s.counts[c->rank];
    struct buffer in = buffer_make(mine, own_layout(t));
    struct buffer out = buffer_make(s.total, own_layout(t));
    const void *const given = in_place ? MPI_IN_PLACE : in.start;

    fill(t, in_place ? &out : &in, in_place ? s.displs[c->rank] : 0, mine, c->rank, 0);
    if (v)
        MPI_Gatherv(given, mine, layouts[in.layout], out.start, s.counts, s.displs,
                    layouts[out.layout], root, c->comm);
    else
        MPI_Gather(given, mine, layouts[in.layout], out.start, mine, layouts[out.layout], root,
                   c->comm);
    for (int i = 0; c->rank == root && i < c->size; i++)
        check(t, v ? "gatherv" : "gather", &out, s.displs[i], s.counts[i], i, 0);
    buffer_end(t, "gather's gap", &in);
    buffer_end(t, "gather's gap", &out);
}

void scatter(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0, root = (int)draw(t, (uint32_t)c->size);
    const int in_place = draw(t, 3) == 0 && c->rank == root;
    const struct shares s = shares_draw(t, c->size, v);
    const int mine = s.counts[c->rank];
    struct buffer in = buffer_make(s.total, own_layout(t));
    struct buffer out = buffer_make(mine, own_layout(t));
    void *const taken = in_place ? MPI_IN_PLACE : out.start;

    for (int i = 0; c->rank == root && i < c->size; i++)
        fill(t, &in, s.displs[i], s.counts[i], root, i);
    if (v)
        MPI_Scatterv(in.start, s.counts, s.displs, layouts[in.layout], taken, mine,
                     layouts[out.layout], root, c->comm);
    else
        MPI_Scatter(in.start, mine, layouts[in.layout], taken, mine, layouts[out.layout], root,
                    c->comm);
    if (!in_place)
        check(t, v ? "scatterv" : "scatter", &out, 0, mine, root, c->rank);
    buffer_end(t, "scatter's gap", &in);
    buffer_end(t, "scatter's gap", &out);
}

/* Also between groups: the shares are then the other group's, and each rank knows its own. */
void allgather(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0, others = c->remote > 0 ? c->remote : c->size;
    const int in_place = draw(t, 3) == 0 && c->remote == 0;
    /* One list for both groups, in the order of the first: both draw both. */
    const int ranks = c->size + c->remote;
    const struct shares all = shares_draw(t, ranks, v);
    const int own_first = c->remote > 0 && c->bias ? c->remote : 0;
    const int first = c->remote > 0 && !c->bias ? c->size : 0;
    const int mine = all.counts[own_first + c->rank], base = all.displs[first];
    int displs[64], end = first + others < ranks ? all.displs[first + others] : all.total;

    for (int i = 0; i < others; i++)
        displs[i] = all.displs[first + i] - base;
    struct buffer in = buffer_make(mine, own_layout(t));
    /* MPICH 5.0 cuts messages by the extent, and fails where that differs among ranks. */
    struct buffer out = buffer_make(end - base, (int)draw(t, LAYOUTS));
    const void *const given = in_place ? MPI_IN_PLACE : in.start;

    fill(t, in_place ? &out : &in, in_place ? displs[c->rank] : 0, mine, own_first + c->rank, 0);
    if (v)
        MPI_Allgatherv(given, mine, layouts[in.layout], out.start, all.counts + first, displs,
                       layouts[out.layout], c->comm);
    else
        MPI_Allgather(given, mine, layouts[in.layout], out.start, all.counts[first],
                      layouts[out.layout], c->comm);
    for (int i = 0; i < others; i++)
        check(t, v ? "allgatherv" : "allgather", &out, displs[i], all.counts[first + i], first + i,
              0);
    buffer_end(t, "allgather's gap", &in);
    buffer_end(t, "allgather's gap", &out);
}

/* Return the number of elements that rank i sends to rank j, equal on both ranks. */
static int pair_count(const struct thread *t, int i, int j, int most)
{
    return most > 0 ? (int)((uint32_t)(i * 31 + j * 17 + (int)t->calls) % (uint32_t)most) : 0;
}

void alltoall(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0 && c->remote == 0, n = c->remote > 0 ? c->remote : c->size;
    const int each = draw_count(t, BYTES / 8 / (c->size + c->remote)); /* equal in both groups */
    const int layout = own_layout(t), other = own_layout(t);
    int counts[2][64], displs[2][64], totals[2] = {0, 0};

    for (int i = 0; i < n; i++)
        for (int side = 0; side < 2; side++) {
            counts[side][i] = !v          ? each
                              : side == 0 ? pair_count(t, c->rank, i, each)
                                          : pair_count(t, i, c->rank, each);
            displs[side][i] = totals[side];
            totals[side] += counts[side][i];
        }
    struct buffer in = buffer_make(totals[0], layout), out = buffer_make(totals[1], other);
    const int me = c->rank + 64 * c->bias, you = 64 * !c->bias * (c->remote > 0);

    for (int i = 0; i < n; i++)
        fill(t, &in, displs[0][i], counts[0][i], me, i);
    if (v)
        MPI_Alltoallv(in.start, counts[0], displs[0], layouts[layout], out.start, counts[1],
                      displs[1], layouts[other], c->comm);
    else
        MPI_Alltoall(in.start, each, layouts[layout], out.start, each, layouts[other], c->comm);
    for (int i = 0; i < n; i++)
        check(t, v ? "alltoallv" : "alltoall", &out, displs[1][i], counts[1][i], i + you, c->rank);
    buffer_end(t, "alltoall's gap", &in);
    buffer_end(t, "alltoall's gap", &out);
}
