/* Bytes that a rank sends and receives in a call, by type signature, and names of type and
 * reduction.
 *
 * Only arguments that are significant at this rank are read; others may be garbage. Before the
 * native routine has accepted the arguments, datatypes that are not predefined and arrays of counts
 * are not read, so the bytes are unknown. A v-form costs O(members) additions.
 */
#include "base/arguments.h"
#include "base/mpi_types.h"
#include "base/pmpi.h"
#include "base/symbol_lookup.h"
#include "record/call.h"
#include "record/communicator.h"

static int64_t type_bytes(struct moved *m, const struct arguments *a, const void *types, size_t i)
{
    const MPI_Datatype type = argument_type(a, types, i);
    struct predefined_type *const known = predefined_type(type);
    MPI_Count size = known != NULL ? atomic_load_explicit(&known->size, memory_order_relaxed) : -1;

    if (size >= 0)
        return size;
    if (!m->accepted) {
        m->unknown = true;
        return 0;
    }
    if (type == MPI_DATATYPE_NULL || pmpi.Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    if (known != NULL)
        atomic_store_explicit(&known->size, size, memory_order_relaxed);
    return size;
}

/* Return the bytes of one count and one type. */
static int64_t one(struct moved *m, const struct arguments *a, const struct side *s)
{
    const int64_t count = argument_count(a, s->count, 0);

    m->unknown |= count < 0;
    return count == 0 ? 0 : count * type_bytes(m, a, s->type, 0);
}

/* Return the bytes of a v-form: many counts, with one type or many. */
static int64_t many(struct moved *m, const struct arguments *a, const struct side *s, int members)
{
    int64_t total = 0;

    if (!m->accepted) {
        m->unknown = true;
        return 0;
    }
    if (s->types != NULL) {
        for (size_t i = 0; i < (size_t)members; i++) {
            const int64_t count = argument_count(a, s->counts, i);

            if (count > 0)
                total += count * type_bytes(m, a, s->types, i);
        }
        return total;
    }
    for (size_t i = 0; i < (size_t)members; i++)
        total += argument_count(a, s->counts, i);
    return total == 0 ? 0 : total * type_bytes(m, a, s->type, 0);
}

/* Return the bytes of one rank's block, which has a separate count in a v-form. */
static int64_t block(struct moved *m, const struct arguments *a, const struct side *s, bool v,
                     int rank)
{
    if (!v)
        return one(m, a, s);
    if (!m->accepted) {
        m->unknown = true;
        return 0;
    }
    return argument_count(a, s->counts, (size_t)rank) * type_bytes(m, a, s->type, 0);
}

/* Store the name of the element type, if it is predefined. */
static void named(struct moved *m, const struct arguments *a, const struct side *s)
{
    const struct predefined_type *const known =
        s->type != NULL ? predefined_type(argument_type(a, s->type, 0)) : NULL;

    m->type = known != NULL ? known->name : NULL;
}

/* role of this rank in a rooted operation */
enum role { OUTSIDE, ROOT, MEMBER };

static enum role role_of(const struct exchange *c)
{
    if (!c->comm->inter)
        return c->root == c->comm->rank ? ROOT : MEMBER;
    return c->root == MPI_ROOT ? ROOT : c->root == MPI_PROC_NULL ? OUTSIDE : MEMBER;
}

/* Gather from `members` contributors. An in-place contribution counts as one share of the total. */
static void gathered(const struct exchange *c, const struct arguments *a, bool v, int members,
                     struct moved *m)
{
    const enum role role = role_of(c);

    if (role == ROOT)
        m->received = v ? many(m, a, &a->recv, members) : one(m, a, &a->recv) * members;
    if (role == ROOT && !c->comm->inter && argument_in_place(a, a->sendbuf)) {
        m->flags |= FLAG_IN_PLACE;
        m->sent = block(m, a, &a->recv, v, c->comm->rank);
    } else if (role == MEMBER || (role == ROOT && !c->comm->inter)) {
        m->sent = one(m, a, &a->send);
    }
    if (role != OUTSIDE)
        named(m, a, role == ROOT ? &a->recv : &a->send);
}

static void scattered(const struct exchange *c, const struct arguments *a, bool v, int members,
                      struct moved *m)
{
    const enum role role = role_of(c);

    if (role == ROOT)
        m->sent = v ? many(m, a, &a->send, members) : one(m, a, &a->send) * members;
    if (role == ROOT && !c->comm->inter && argument_in_place(a, a->recvbuf)) {
        m->flags |= FLAG_IN_PLACE;
        m->received = block(m, a, &a->send, v, c->comm->rank);
    } else if (role == MEMBER || (role == ROOT && !c->comm->inter)) {
        m->received = one(m, a, &a->recv);
    }
    if (role != OUTSIDE)
        named(m, a, role == ROOT ? &a->send : &a->recv);
}

static void allgathered(const struct exchange *c, const struct arguments *a, bool v, int from,
                        struct moved *m)
{
    const bool in_place = argument_in_place(a, a->sendbuf);

    m->received = v ? many(m, a, &a->recv, from) : one(m, a, &a->recv) * from;
    m->flags |= in_place ? FLAG_IN_PLACE : 0u;
    m->sent = in_place ? block(m, a, &a->recv, v, c->comm->rank) : one(m, a, &a->send);
    named(m, a, in_place ? &a->recv : &a->send);
}

static void exchanged(const struct arguments *a, bool v, int to, int from, struct moved *m)
{
    const bool in_place = argument_in_place(a, a->sendbuf);

    m->received = v ? many(m, a, &a->recv, from) : one(m, a, &a->recv) * from;
    m->flags |= in_place ? FLAG_IN_PLACE : 0u;
    m->sent = in_place ? m->received : v ? many(m, a, &a->send, to) : one(m, a, &a->send) * to;
    named(m, a, in_place ? &a->recv : &a->send);
}

/* Reduction of a vector. `result` is the number of bytes that this rank receives. */
static void reduced(const struct arguments *a, int64_t vector, int64_t result, struct moved *m)
{
    m->flags |= argument_in_place(a, a->sendbuf) ? FLAG_IN_PLACE : 0u;
    m->sent = vector;
    m->received = result;
    named(m, a, &a->send);
    m->reduction = predefined_reduction(argument_op(a));
}

static void reduce_to_root(const struct exchange *c, const struct arguments *a, struct moved *m)
{
    const enum role role = role_of(c);

    if (role == OUTSIDE) /* all arguments may be garbage */
        return;
    const int64_t vector = one(m, a, &a->send);

    m->flags |= role == ROOT && argument_in_place(a, a->sendbuf) ? FLAG_IN_PLACE : 0u;
    m->sent = role == MEMBER || !c->comm->inter ? vector : 0;
    m->received = role == ROOT ? vector : 0;
    named(m, a, &a->send);
    m->reduction = predefined_reduction(argument_op(a));
}

static void reduce_scattered(const struct exchange *c, const struct arguments *a, bool v,
                             struct moved *m)
{
    const struct side whole = {
        .count = a->recv.count, .counts = a->recv.counts, .type = a->send.type};
    const int64_t share = block(m, a, &whole, v, c->comm->rank);

    reduced(a, v ? many(m, a, &whole, c->comm->size) : share * c->comm->size, share, m);
}

static void broadcast(const struct exchange *c, const struct arguments *a, struct moved *m)
{
    const enum role role = role_of(c);

    if (role == OUTSIDE)
        return;
    *(role == ROOT ? &m->sent : &m->received) = one(m, a, &a->send);
    named(m, a, &a->send);
}

void byte_counts(const struct exchange *c, const struct arguments *a, struct moved *m)
{
    const struct communicator *const k = c->comm;
    const int others = k->inter ? k->remote_size : k->size;

    switch (c->operation - c->operation % 3) {
    case OP_allgather: allgathered(c, a, false, others, m); break;
    case OP_allgatherv: allgathered(c, a, true, others, m); break;
    case OP_allreduce:
    case OP_scan:
    case OP_exscan: {
        const int64_t bytes = one(m, a, &a->send); /* queried once: it costs as much as a clock */
        const bool first = k->rank == 0 && c->operation - c->operation % 3 == OP_exscan;

        reduced(a, bytes, first ? 0 : bytes, m);
        break;
    }
    case OP_alltoall: exchanged(a, false, others, others, m); break;
    case OP_alltoallv:
    case OP_alltoallw: exchanged(a, true, others, others, m); break;
    case OP_bcast: broadcast(c, a, m); break;
    case OP_gather: gathered(c, a, false, others, m); break;
    case OP_gatherv: gathered(c, a, true, others, m); break;
    case OP_scatter: scattered(c, a, false, others, m); break;
    case OP_scatterv: scattered(c, a, true, others, m); break;
    case OP_reduce: reduce_to_root(c, a, m); break;
    case OP_reduce_scatter: reduce_scattered(c, a, true, m); break;
    case OP_reduce_scatter_block: reduce_scattered(c, a, false, m); break;
    case OP_neighbor_allgather: allgathered(c, a, false, k->topology.indegree, m); break;
    case OP_neighbor_allgatherv: allgathered(c, a, true, k->topology.indegree, m); break;
    case OP_neighbor_alltoall:
        exchanged(a, false, k->topology.outdegree, k->topology.indegree, m);
        break;
    case OP_neighbor_alltoallv:
    case OP_neighbor_alltoallw:
        exchanged(a, true, k->topology.outdegree, k->topology.indegree, m);
        break;
    default: break; /* a barrier */
    }
}
