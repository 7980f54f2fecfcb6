/* Random calls that move data, and barriers. */
#include "execute_cases.h"

#include <unistd.h>

/* ---- data movement */

void test_bcast(struct test *t)
{
    struct side s;
    long periods[MOST];

    sizes_regular(t, periods);
    side_make(&s, t, periods, 1, false);
    side_put(&s, t->me != t->root, 0, key_of(t, t->root, 0));
    side_put(&s, true, 0, key_of(t, t->root, 0));
    CALL(Bcast)(s.base, s.count, s.layout.type, t->root, t->comm);
    side_check(&s, "buffer");
}

void test_gather(struct test *t, bool v)
{
    const bool root = t->me == t->root;
    struct side in, out;
    long periods[MOST];

    if (v)
        sizes_irregular(t, periods, 1, t->size);
    else
        sizes_regular(t, periods);
    side_make(&in, t, &periods[t->me], 1, false);
    side_fill(&in, 0, key_of(t, t->me, 0));
    side_make(&out, t, periods, root ? t->size : 1, v);
    for (int i = 0; root && i < t->size; i++)
        side_put(&out, true, i, key_of(t, i, 0));
    if (root && t->in_place)
        side_put(&out, false, t->me, key_of(t, t->me, 0));
    const void *const from = root && t->in_place ? MPI_IN_PLACE : in.base;
    const count_t count = root && t->in_place ? GARBAGE : in.count;
    const MPI_Datatype type = root && t->in_place ? MPI_DATATYPE_NULL : in.layout.type;

    void *const to = root ? out.base : NULL;
    const MPI_Datatype out_type = root ? out.layout.type : MPI_DATATYPE_NULL;

    if (v)
        CALL(Gatherv)(from, count, type, to, root ? out.counts : NULL, root ? out.displs : NULL,
                      out_type, t->root, t->comm);
    else
        CALL(Gather)(from, count, type, to, root ? out.count : GARBAGE, out_type, t->root, t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

void test_scatter(struct test *t, bool v)
{
    const bool root = t->me == t->root;
    struct side in, out;
    long periods[MOST];

    if (v)
        sizes_irregular(t, periods, 1, t->size);
    else
        sizes_regular(t, periods);
    side_make(&in, t, periods, root ? t->size : 1, v);
    for (int i = 0; root && i < t->size; i++)
        side_fill(&in, i, key_of(t, i, 0));
    side_make(&out, t, &periods[t->me], 1, false);
    if (!root || !t->in_place)
        side_put(&out, true, 0, key_of(t, t->me, 0));
    void *const to = root && t->in_place ? MPI_IN_PLACE : out.base;
    const count_t count = root && t->in_place ? GARBAGE : out.count;
    const MPI_Datatype type = root && t->in_place ? MPI_DATATYPE_NULL : out.layout.type;

    if (v)
        CALL(Scatterv)(root ? in.base : NULL, in.counts, in.displs,
                       root ? in.layout.type : MPI_DATATYPE_NULL, to, count, type, t->root,
                       t->comm);
    else
        CALL(Scatter)(root ? in.base : NULL, root ? in.count : GARBAGE,
                      root ? in.layout.type : MPI_DATATYPE_NULL, to, count, type, t->root, t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

void test_allgather(struct test *t, bool v)
{
    struct side in, out;
    long own[MOST], others[MOST];
    const bool in_place = t->in_place && !t->inter;

    /* On an inter-communicator each group has sizes of its own. */
    const uint64_t mine = t->inter && t->first ? 2 : 1, theirs = t->inter && !t->first ? 2 : 1;

    if (v) {
        sizes_irregular(t, own, mine, t->size);
        sizes_irregular(t, others, theirs, t->there);
    } else {
        for (int i = 0; i < MOST; i++) {
            own[i] = size_draw(t, mine);
            others[i] = size_draw(t, theirs);
        }
    }
    side_make(&in, t, &own[t->me], 1, false);
    side_fill(&in, 0, key_of(t, t->me, t->first));
    side_make(&out, t, others, t->there, v);
    for (int i = 0; i < t->there; i++)
        side_put(&out, true, i, key_of(t, i, t->inter ? !t->first : t->first));
    if (in_place)
        side_put(&out, false, t->me, key_of(t, t->me, t->first));
    const void *const from = in_place ? MPI_IN_PLACE : in.base;
    const count_t count = in_place ? GARBAGE : in.count;
    const MPI_Datatype type = in_place ? MPI_DATATYPE_NULL : in.layout.type;

    if (v)
        CALL(Allgatherv)(from, count, type, out.base, out.counts, out.displs, out.layout.type,
                         t->comm);
    else
        CALL(Allgather)(from, count, type, out.base, out.count, out.layout.type, t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

static long between(struct test *t, int from, int to)
{
    const int a = t->in_place && from > to ? to : from, b = t->in_place && from > to ? from : to;

    return size_draw(t, 1000 + (uint64_t)(a * MOST + b));
}

void test_alltoall(struct test *t, bool v)
{
    struct side in, out;
    long sent[MOST], received[MOST];

    for (int i = 0; i < t->size; i++) {
        sent[i] = v ? between(t, t->me, i) : size_draw(t, 77);
        received[i] = v ? between(t, i, t->me) : size_draw(t, 77);
    }
    side_make(&in, t, sent, t->size, v);
    side_make(&out, t, received, t->size, v);
    for (int i = 0; i < t->size; i++) {
        side_fill(&in, i, key_of(t, t->me, i));
        side_put(&out, true, i, key_of(t, i, t->me));
        if (t->in_place)
            side_put(&out, false, i, key_of(t, t->me, i));
    }
    if (v && t->in_place)
        CALL(Alltoallv)(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, out.base, out.counts,
                        out.displs, out.layout.type, t->comm);
    else if (v)
        CALL(Alltoallv)(in.base, in.counts, in.displs, in.layout.type, out.base, out.counts,
                        out.displs, out.layout.type, t->comm);
    else if (t->in_place)
        CALL(Alltoall)(MPI_IN_PLACE, GARBAGE, MPI_DATATYPE_NULL, out.base, out.count,
                       out.layout.type, t->comm);
    else
        CALL(Alltoall)(in.base, in.count, in.layout.type, out.base, out.count, out.layout.type,
                       t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

/* Nobody leaves a barrier before all have come: `arrivals` counts them. */
void test_barrier(struct test *t)
{
    const long all = t->inter ? t->size + t->there : t->size;
    const long before = atomic_fetch_add(t->arrivals, 1) / all;

    if (draw(&t->own, 4) == 0)
        usleep((useconds_t)draw(&t->own, 300));
    MPI_Barrier(t->comm);
    if (atomic_load(t->arrivals) < (before + 1) * all)
        fail("left before all had come", 0, NULL);
    MPI_Barrier(t->comm);
    atomic_fetch_add(t->arrivals, 1);
    MPI_Barrier(t->comm);
}
