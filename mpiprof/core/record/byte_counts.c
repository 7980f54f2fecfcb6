/* Bytes that a rank sends and receives in a call, by type signature, and names of type and
 * reduction.
 *
 * Only arguments that are significant at this rank are read; others may be garbage. Before the
 * native routine has accepted the arguments, datatypes that are not predefined and arrays of counts
 * are not read, so the bytes are unknown. A v-form costs O(members) additions.
 */
#include "base/mpi_types.h"
#include "base/pmpi.h"
#include "record/call.h"

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

/* Return the bytes of one side of a call that the library has accepted. */
int64_t byte_count_of_side(const struct arguments *a, const struct side *s)
{
    struct byte_counts m = {.accepted = true};
    const int64_t bytes = count_bytes(&m, a, s);

    return m.unknown ? -1 : bytes;
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
    for (size_t i = 0; i < (size_t)members; i++) {
        const int64_t count = argument_count(a, s->counts, i);

        if (s->types == NULL)
            total += count;
        else if (count > 0)
            total += count * type_bytes(m, a, s->types, i);
    }
    return s->types != NULL || total == 0 ? total : total * type_bytes(m, a, s->type, 0);
}

/* Return the bytes of all blocks of a side, one for each member. */
static int64_t side_bytes(struct byte_counts *m, const struct arguments *a, const struct side *s,
                          int members)
{
    return argument_has_counts(s) ? counts_bytes(m, a, s, members) : count_bytes(m, a, s) * members;
}

/* Return the bytes of one rank's block, which has a separate count in a v-form. */
static int64_t block_bytes(struct byte_counts *m, const struct arguments *a, const struct side *s,
                           int rank)
{
    if (!argument_has_counts(s))
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

static enum role role_of(const struct call *c)
{
    if (!c->comm->inter)
        return c->root == c->comm->rank ? ROOT : MEMBER;
    return c->root == MPI_ROOT ? ROOT : c->root == MPI_PROC_NULL ? OUTSIDE : MEMBER;
}

/* Gather or scatter. The root has a block for each of `members`; with MPI_IN_PLACE, the root's
 * block counts as one share of the total. */
static void rooted_bytes(const struct call *c, const struct arguments *a, bool gathers, int members,
                         struct byte_counts *m)
{
    const enum role role = role_of(c);
    const struct side *const all = gathers ? &a->recv : &a->send;
    const struct side *const block = gathers ? &a->send : &a->recv;
    int64_t *const total = gathers ? &m->received : &m->sent;
    int64_t *const share = gathers ? &m->sent : &m->received;

    if (role == OUTSIDE)
        return;
    if (role == ROOT)
        *total = side_bytes(m, a, all, members);
    if (role == ROOT && !c->comm->inter &&
        argument_in_place(a, gathers ? a->sendbuf : a->recvbuf)) {
        m->flags |= FLAG_IN_PLACE;
        *share = block_bytes(m, a, all, c->comm->rank);
    } else if (role == MEMBER || !c->comm->inter) {
        *share = count_bytes(m, a, block);
    }
    type_name_store(m, a, role == ROOT ? all : block);
}

static void allgather_bytes(const struct call *c, const struct arguments *a, int from,
                            struct byte_counts *m)
{
    const bool in_place = argument_in_place(a, a->sendbuf);

    m->received = side_bytes(m, a, &a->recv, from);
    m->flags |= in_place ? FLAG_IN_PLACE : 0u;
    m->sent = in_place ? block_bytes(m, a, &a->recv, c->comm->rank) : count_bytes(m, a, &a->send);
    type_name_store(m, a, in_place ? &a->recv : &a->send);
}

static void alltoall_bytes(const struct arguments *a, int to, int from, struct byte_counts *m)
{
    const bool in_place = argument_in_place(a, a->sendbuf);

    m->received = side_bytes(m, a, &a->recv, from);
    m->flags |= in_place ? FLAG_IN_PLACE : 0u;
    m->sent = in_place ? m->received : side_bytes(m, a, &a->send, to);
    type_name_store(m, a, in_place ? &a->recv : &a->send);
}

/* Reduction with this rank's contribution and result in bytes. */
static void reduce_bytes(const struct arguments *a, bool in_place, int64_t contribution,
                         int64_t result, struct byte_counts *m)
{
    m->flags |= in_place ? FLAG_IN_PLACE : 0u;
    m->sent = contribution;
    m->received = result;
    type_name_store(m, a, &a->send);
    m->reduction = predefined_reduction(argument_operation(a));
}

static void reduce_root_bytes(const struct call *c, const struct arguments *a,
                              struct byte_counts *m)
{
    const enum role role = role_of(c);

    if (role == OUTSIDE) /* all arguments may be garbage */
        return;
    const int64_t vector = count_bytes(m, a, &a->send);

    reduce_bytes(a, role == ROOT && argument_in_place(a, a->sendbuf),
                 role == MEMBER || !c->comm->inter ? vector : 0, role == ROOT ? vector : 0, m);
}

static void reduce_scatter_bytes(const struct call *c, const struct arguments *a,
                                 struct byte_counts *m)
{
    const struct side whole = {
        .count = a->recv.count, .counts = a->recv.counts, .type = a->send.type};
    const int64_t share = block_bytes(m, a, &whole, c->comm->rank);
    const int64_t total = argument_has_counts(&whole) ? counts_bytes(m, a, &whole, c->comm->size)
                                                      : share * c->comm->size;

    reduce_bytes(a, argument_in_place(a, a->sendbuf), total, share, m);
}

static void bcast_bytes(const struct call *c, const struct arguments *a, struct byte_counts *m)
{
    const enum role role = role_of(c);

    if (role == OUTSIDE)
        return;
    *(role == ROOT ? &m->sent : &m->received) = count_bytes(m, a, &a->send);
    type_name_store(m, a, &a->send);
}

void byte_counts(const struct call *c, const struct arguments *a, struct byte_counts *m)
{
    const struct communicator *const k = c->comm;
    const int others = k->inter ? k->remote_size : k->size;
    const int operation = c->operation - c->operation % 3; /* the blocking form */

    switch (operation) {
    case OP_allgather:
    case OP_allgatherv: allgather_bytes(c, a, others, m); break;
    case OP_neighbor_allgather:
    case OP_neighbor_allgatherv: allgather_bytes(c, a, k->topology.indegree, m); break;
    case OP_allreduce:
    case OP_scan:
    case OP_exscan: {
        const int64_t bytes =
            count_bytes(m, a, &a->send); /* queried once: it costs as much as a clock */
        const bool no_result = k->rank == 0 && operation == OP_exscan;

        reduce_bytes(a, argument_in_place(a, a->sendbuf), bytes, no_result ? 0 : bytes, m);
        break;
    }
    case OP_alltoall:
    case OP_alltoallv:
    case OP_alltoallw: alltoall_bytes(a, others, others, m); break;
    case OP_neighbor_alltoall:
    case OP_neighbor_alltoallv:
    case OP_neighbor_alltoallw:
        alltoall_bytes(a, k->topology.outdegree, k->topology.indegree, m);
        break;
    case OP_bcast: bcast_bytes(c, a, m); break;
    case OP_gather:
    case OP_gatherv: rooted_bytes(c, a, true, others, m); break;
    case OP_scatter:
    case OP_scatterv: rooted_bytes(c, a, false, others, m); break;
    case OP_reduce: reduce_root_bytes(c, a, m); break;
    case OP_reduce_scatter:
    case OP_reduce_scatter_block: reduce_scatter_bytes(c, a, m); break;
    default: break; /* a barrier */
    }
}
