/* The bytes that a rank sends and receives in a call, by its type signature.
 *
 * Comes after the native routine has accepted the arguments, and reads only what is significant at
 * this rank: what is not may be garbage. A v-form costs O(members) additions.
 */
#include "record/traffic.h"
#include "base/arguments.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "record/comm.h"
#include "record/signature.h"

static int64_t type_bytes(const struct arguments *a, const void *types, size_t i)
{
    const MPI_Datatype type = argument_type(a, types, i);
    MPI_Count size = 0;

    if (type == MPI_DATATYPE_NULL || pmpi.Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return size;
}

/* One count and one type. */
static int64_t one(const struct arguments *a, const struct side *s)
{
    const int64_t count = argument_count(a, s->count, 0);

    return count == 0 ? 0 : count * type_bytes(a, s->type, 0);
}

/* A v-form: many counts, one type or many. */
static int64_t many(const struct arguments *a, const struct side *s, int members)
{
    int64_t total = 0;

    if (s->types != NULL) {
        for (size_t i = 0; i < (size_t)members; i++) {
            const int64_t count = argument_count(a, s->counts, i);

            if (count > 0)
                total += count * type_bytes(a, s->types, i);
        }
        return total;
    }
    for (size_t i = 0; i < (size_t)members; i++)
        total += argument_count(a, s->counts, i);
    return total == 0 ? 0 : total * type_bytes(a, s->type, 0);
}

/* What this rank is in a rooted operation. */
enum role { OUTSIDE, ROOT, MEMBER };

static enum role role_of(const struct exchange *c)
{
    if (!c->comm->inter)
        return c->root == c->comm->rank ? ROOT : MEMBER;
    return c->root == MPI_ROOT ? ROOT : c->root == MPI_PROC_NULL ? OUTSIDE : MEMBER;
}

/* Gather: `members` is who contributes. A contribution in place is one share of the total. */
static void gathered(const struct exchange *c, const struct arguments *a, bool v, int members,
                     int64_t *sent, int64_t *received, uint32_t *flags)
{
    const enum role role = role_of(c);

    if (role == ROOT)
        *received = v ? many(a, &a->recv, members) : one(a, &a->recv) * members;
    if (role == ROOT && !c->comm->inter && argument_in_place(a, a->sendbuf)) {
        *flags |= FLAG_IN_PLACE;
        *sent = !v ? one(a, &a->recv)
                   : argument_count(a, a->recv.counts, (size_t)c->comm->rank) *
                         type_bytes(a, a->recv.type, 0);
    } else if (role == MEMBER || (role == ROOT && !c->comm->inter)) {
        *sent = one(a, &a->send);
    }
}

static void scattered(const struct exchange *c, const struct arguments *a, bool v, int members,
                      int64_t *sent, int64_t *received, uint32_t *flags)
{
    const enum role role = role_of(c);

    if (role == ROOT)
        *sent = v ? many(a, &a->send, members) : one(a, &a->send) * members;
    if (role == ROOT && !c->comm->inter && argument_in_place(a, a->recvbuf)) {
        *flags |= FLAG_IN_PLACE;
        *received = !v ? one(a, &a->send)
                       : argument_count(a, a->send.counts, (size_t)c->comm->rank) *
                             type_bytes(a, a->send.type, 0);
    } else if (role == MEMBER || (role == ROOT && !c->comm->inter)) {
        *received = one(a, &a->recv);
    }
}

static void allgathered(const struct exchange *c, const struct arguments *a, bool v, int from,
                        int64_t *sent, int64_t *received, uint32_t *flags)
{
    *received = v ? many(a, &a->recv, from) : one(a, &a->recv) * from;
    if (!argument_in_place(a, a->sendbuf)) {
        *sent = one(a, &a->send);
        return;
    }
    *flags |= FLAG_IN_PLACE;
    *sent = !v ? one(a, &a->recv)
               : argument_count(a, a->recv.counts, (size_t)c->comm->rank) *
                     type_bytes(a, a->recv.type, 0);
}

static void exchanged(const struct arguments *a, bool v, int to, int from, int64_t *sent,
                      int64_t *received, uint32_t *flags)
{
    *received = v ? many(a, &a->recv, from) : one(a, &a->recv) * from;
    if (argument_in_place(a, a->sendbuf)) {
        *flags |= FLAG_IN_PLACE;
        *sent = *received;
    } else {
        *sent = v ? many(a, &a->send, to) : one(a, &a->send) * to;
    }
}

/* Reductions: the vector; a result arrives at `gets` ranks. */
static void reduced(const struct arguments *a, int64_t vector, int64_t result, int64_t *sent,
                    int64_t *received, uint32_t *flags)
{
    if (argument_in_place(a, a->sendbuf))
        *flags |= FLAG_IN_PLACE;
    *sent = vector;
    *received = result;
}

static void reduce_to_root(const struct exchange *c, const struct arguments *a, int64_t *sent,
                           int64_t *received, uint32_t *flags)
{
    const enum role role = role_of(c);
    const int64_t vector = role == OUTSIDE ? 0 : one(a, &a->send); /* there all is garbage */

    if (role == ROOT && argument_in_place(a, a->sendbuf))
        *flags |= FLAG_IN_PLACE;
    *sent = role == MEMBER || (role == ROOT && !c->comm->inter) ? vector : 0;
    *received = role == ROOT ? vector : 0;
}

static void reduce_scattered(const struct exchange *c, const struct arguments *a, bool block,
                             int64_t *sent, int64_t *received, uint32_t *flags)
{
    const struct side whole = {
        .count = a->recv.count, .counts = a->recv.counts, .type = a->send.type};
    const int64_t share = block ? one(a, &whole)
                                : argument_count(a, whole.counts, (size_t)c->comm->rank) *
                                      type_bytes(a, whole.type, 0);
    const int64_t vector = block ? share * c->comm->size : many(a, &whole, c->comm->size);

    reduced(a, vector, share, sent, received, flags);
}

void traffic(const struct exchange *c, const struct arguments *a, int64_t *sent, int64_t *received,
             uint32_t *flags)
{
    const struct communicator *const k = c->comm;
    const int others = k->inter ? k->remote_size : k->size;

    switch (c->operation - c->operation % 3) {
    case OP_allgather: allgathered(c, a, false, others, sent, received, flags); break;
    case OP_allgatherv: allgathered(c, a, true, others, sent, received, flags); break;
    case OP_allreduce:
    case OP_scan: {
        const int64_t bytes = one(a, &a->send); /* asked once: it costs as much as a clock */

        reduced(a, bytes, bytes, sent, received, flags);
        break;
    }
    case OP_exscan:
        reduced(a, one(a, &a->send), k->rank == 0 ? 0 : one(a, &a->send), sent, received, flags);
        break;
    case OP_alltoall: exchanged(a, false, others, others, sent, received, flags); break;
    case OP_alltoallv:
    case OP_alltoallw: exchanged(a, true, others, others, sent, received, flags); break;
    case OP_bcast:
        *sent = role_of(c) == ROOT ? one(a, &a->send) : 0;
        *received = role_of(c) == MEMBER ? one(a, &a->send) : 0;
        break;
    case OP_gather: gathered(c, a, false, others, sent, received, flags); break;
    case OP_gatherv: gathered(c, a, true, others, sent, received, flags); break;
    case OP_scatter: scattered(c, a, false, others, sent, received, flags); break;
    case OP_scatterv: scattered(c, a, true, others, sent, received, flags); break;
    case OP_reduce: reduce_to_root(c, a, sent, received, flags); break;
    case OP_reduce_scatter: reduce_scattered(c, a, false, sent, received, flags); break;
    case OP_reduce_scatter_block: reduce_scattered(c, a, true, sent, received, flags); break;
    case OP_neighbor_allgather: allgathered(c, a, false, k->indegree, sent, received, flags); break;
    case OP_neighbor_allgatherv: allgathered(c, a, true, k->indegree, sent, received, flags); break;
    case OP_neighbor_alltoall:
        exchanged(a, false, k->outdegree, k->indegree, sent, received, flags);
        break;
    case OP_neighbor_alltoallv:
    case OP_neighbor_alltoallw:
        exchanged(a, true, k->outdegree, k->indegree, sent, received, flags);
        break;
    default: break; /* a barrier */
    }
}
