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

static int64_t type_bytes(struct byte_counts *m, const struct arguments *a, const void *types,
                          size_t i)
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
static int64_t count_bytes(struct byte_counts *m, const struct arguments *a, const struct side *s)
{
    const int64_t count = argument_count(a, s->count, 0);

    m->unknown |= count < 0;
    return count == 0 ? 0 : count * type_bytes(m, a, s->type, 0);
}

/* Return the bytes of a v-form: many counts, with one type or many. */
static int64_t counts_bytes(struct byte_counts *m, const struct arguments *a, const struct side *s,
                            int members)
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
static int64_t block_bytes(struct byte_counts *m, const struct arguments *a, const struct side *s,
                           bool v, int rank)
{
    if (!v)
        return count_bytes(m, a, s);
    if (!m->accepted) {
        m->unknown = true;
        return 0;
    }
    return argument_count(a, s->counts, (size_t)rank) * type_bytes(m, a, s->type, 0);
}

/* Store the name of the element type, if it is predefined. */
static void type_name_store(struct byte_counts *m, const struct arguments *a, const struct side *s)
{
    const struct predefined_type *const known =
        s->type != NULL ? predefined_type(argument_type(a, s->type, 0)) : NULL;

    m->type = known != NULL ? known->name : NULL;
}

/* role of this rank in a rooted operation */
enum role { OUTSIDE, ROOT, MEMBER };

static enum role role_of(const struct call_identity *c)
{
    if (!c->comm->inter)
        return c->root == c->comm->rank ? ROOT : MEMBER;
    return c->root == MPI_ROOT ? ROOT : c->root == MPI_PROC_NULL ? OUTSIDE : MEMBER;
}

/* Gather from `members` contributors. An in-place contribution counts as one share of the total. */
static void gather_bytes(const struct call_identity *c, const struct arguments *a, bool v,
                         int members, struct byte_counts *m)
{
    const enum role role = role_of(c);

    if (role == ROOT)
        m->received =
            v ? counts_bytes(m, a, &a->recv, members) : count_bytes(m, a, &a->recv) * members;
    if (role == ROOT && !c->comm->inter && argument_in_place(a, a->sendbuf)) {
        m->flags |= FLAG_IN_PLACE;
        m->sent = block_bytes(m, a, &a->recv, v, c->comm->rank);
    } else if (role == MEMBER || (role == ROOT && !c->comm->inter)) {
        m->sent = count_bytes(m, a, &a->send);
    }
    if (role != OUTSIDE)
        type_name_store(m, a, role == ROOT ? &a->recv : &a->send);
}

static void scatter_bytes(const struct call_identity *c, const struct arguments *a, bool v,
                          int members, struct byte_counts *m)
{
    const enum role role = role_of(c);

    if (role == ROOT)
        m->sent = v ? counts_bytes(m, a, &a->send, members) : count_bytes(m, a, &a->send) * members;
    if (role == ROOT && !c->comm->inter && argument_in_place(a, a->recvbuf)) {
        m->flags |= FLAG_IN_PLACE;
        m->received = block_bytes(m, a, &a->send, v, c->comm->rank);
    } else if (role == MEMBER || (role == ROOT && !c->comm->inter)) {
        m->received = count_bytes(m, a, &a->recv);
    }
    if (role != OUTSIDE)
        type_name_store(m, a, role == ROOT ? &a->send : &a->recv);
}

static void allgather_bytes(const struct call_identity *c, const struct arguments *a, bool v,
                            int from, struct byte_counts *m)
{
    const bool in_place = argument_in_place(a, a->sendbuf);

    m->received = v ? counts_bytes(m, a, &a->recv, from) : count_bytes(m, a, &a->recv) * from;
    m->flags |= in_place ? FLAG_IN_PLACE : 0u;
    m->sent =
        in_place ? block_bytes(m, a, &a->recv, v, c->comm->rank) : count_bytes(m, a, &a->send);
    type_name_store(m, a, in_place ? &a->recv : &a->send);
}

static void alltoall_bytes(const struct arguments *a, bool v, int to, int from,
                           struct byte_counts *m)
{
    const bool in_place = argument_in_place(a, a->sendbuf);

    m->received = v ? counts_bytes(m, a, &a->recv, from) : count_bytes(m, a, &a->recv) * from;
    m->flags |= in_place ? FLAG_IN_PLACE : 0u;
    m->sent = in_place ? m->received
              : v      ? counts_bytes(m, a, &a->send, to)
                       : count_bytes(m, a, &a->send) * to;
    type_name_store(m, a, in_place ? &a->recv : &a->send);
}

/* Reduction of a vector. `result` is the number of bytes that this rank receives. */
static void reduce_bytes(const struct arguments *a, int64_t vector, int64_t result,
                         struct byte_counts *m)
{
    m->flags |= argument_in_place(a, a->sendbuf) ? FLAG_IN_PLACE : 0u;
    m->sent = vector;
    m->received = result;
    type_name_store(m, a, &a->send);
    m->reduction = predefined_reduction(argument_operation(a));
}

static void reduce_root_bytes(const struct call_identity *c, const struct arguments *a,
                              struct byte_counts *m)
{
    const enum role role = role_of(c);

    if (role == OUTSIDE) /* all arguments may be garbage */
        return;
    const int64_t vector = count_bytes(m, a, &a->send);

    m->flags |= role == ROOT && argument_in_place(a, a->sendbuf) ? FLAG_IN_PLACE : 0u;
    m->sent = role == MEMBER || !c->comm->inter ? vector : 0;
    m->received = role == ROOT ? vector : 0;
    type_name_store(m, a, &a->send);
    m->reduction = predefined_reduction(argument_operation(a));
}

static void reduce_scatter_bytes(const struct call_identity *c, const struct arguments *a, bool v,
                                 struct byte_counts *m)
{
    const struct side whole = {
        .count = a->recv.count, .counts = a->recv.counts, .type = a->send.type};
    const int64_t share = block_bytes(m, a, &whole, v, c->comm->rank);

    reduce_bytes(a, v ? counts_bytes(m, a, &whole, c->comm->size) : share * c->comm->size, share,
                 m);
}

static void bcast_bytes(const struct call_identity *c, const struct arguments *a,
                        struct byte_counts *m)
{
    const enum role role = role_of(c);

    if (role == OUTSIDE)
        return;
    *(role == ROOT ? &m->sent : &m->received) = count_bytes(m, a, &a->send);
    type_name_store(m, a, &a->send);
}

void byte_counts(const struct call_identity *c, const struct arguments *a, struct byte_counts *m)
{
    const struct communicator *const k = c->comm;
    const int others = k->inter ? k->remote_size : k->size;

    switch (c->operation - c->operation % 3) {
    case OP_allgather: allgather_bytes(c, a, false, others, m); break;
    case OP_allgatherv: allgather_bytes(c, a, true, others, m); break;
    case OP_allreduce:
    case OP_scan:
    case OP_exscan: {
        const int64_t bytes =
            count_bytes(m, a, &a->send); /* queried once: it costs as much as a clock */
        const bool first = k->rank == 0 && c->operation - c->operation % 3 == OP_exscan;

        reduce_bytes(a, bytes, first ? 0 : bytes, m);
        break;
    }
    case OP_alltoall: alltoall_bytes(a, false, others, others, m); break;
    case OP_alltoallv:
    case OP_alltoallw: alltoall_bytes(a, true, others, others, m); break;
    case OP_bcast: bcast_bytes(c, a, m); break;
    case OP_gather: gather_bytes(c, a, false, others, m); break;
    case OP_gatherv: gather_bytes(c, a, true, others, m); break;
    case OP_scatter: scatter_bytes(c, a, false, others, m); break;
    case OP_scatterv: scatter_bytes(c, a, true, others, m); break;
    case OP_reduce: reduce_root_bytes(c, a, m); break;
    case OP_reduce_scatter: reduce_scatter_bytes(c, a, true, m); break;
    case OP_reduce_scatter_block: reduce_scatter_bytes(c, a, false, m); break;
    case OP_neighbor_allgather: allgather_bytes(c, a, false, k->topology.indegree, m); break;
    case OP_neighbor_allgatherv: allgather_bytes(c, a, true, k->topology.indegree, m); break;
    case OP_neighbor_alltoall:
        alltoall_bytes(a, false, k->topology.outdegree, k->topology.indegree, m);
        break;
    case OP_neighbor_alltoallv:
    case OP_neighbor_alltoallw:
        alltoall_bytes(a, true, k->topology.outdegree, k->topology.indegree, m);
        break;
    default: break; /* a barrier */
    }
}
