/* The problem of a schedule: sizes in bytes from the arguments of a call, and which of them all
 * members know.
 *
 * The arrays of counts belong to the thread. They grow and stay allocated for its next call.
 */
#include <string.h>

#include "base/base.h"
#include "base/mpi_types.h"
#include "base/operation.h"
#include "executor/execution.h"
#include "executor/private_comm.h"
#include "schedule/algorithms/catalogue.h"

/* the catalogue has algorithms; [1] is for inter-communicators */
static bool has_algorithms[OP_COUNT][2];

static _Thread_local struct {
    int64_t *counts;
    int room;
} thread_counts[2];

void problem_start(void)
{
    for (int i = 0; i < catalogue_count; i++)
        for (int op = 0; op < OP_COUNT; op++)
            if (strcmp(catalogue[i]->operation, operation_names[op]) == 0)
                has_algorithms[op][catalogue[i]->inter] = true;
}

bool problem_is_switched(const struct call *c)
{
    return has_algorithms[c->operation][c->comm->inter];
}

/* Return an array for counts by rank, or NULL without memory. */
int64_t *problem_counts(int which, int members)
{
    if (members > thread_counts[which].room || thread_counts[which].counts == NULL) {
        memory_free(thread_counts[which].counts);
        thread_counts[which].counts = memory_allocate(sizeof(int64_t) * (size_t)(members + 1));
        thread_counts[which].room = thread_counts[which].counts != NULL ? members : 0;
    }
    return thread_counts[which].counts;
}

void problem_forget(void)
{
    for (int i = 0; i < 2; i++)
        memory_free(thread_counts[i].counts);
    memset(thread_counts, 0, sizeof thread_counts);
}

static int64_t bytes_of(const struct arguments *a, const void *count, const void *type)
{
    return argument_count(a, count, 0) * type_properties(argument_type(a, type, 0)).size;
}

static int64_t side_bytes(const struct arguments *a, const struct side *s)
{
    return bytes_of(a, s->count, s->type);
}

static int64_t *counts_bytes(const struct arguments *a, const struct side *s, const void *type,
                             int members, int which)
{
    int64_t *const counts = problem_counts(which, members);
    const int64_t size = type_properties(argument_type(a, type, 0)).size;

    for (int i = 0; counts != NULL && i < members; i++)
        counts[i] = argument_count(a, s->counts, (size_t)i) * size;
    return counts;
}

static bool fill_allgatherv(struct execution *e, int members)
{
    const struct communicator *const k = e->call->comm;
    const struct arguments *const a = e->arguments;
    struct problem *const p = &e->problem;

    if (!k->inter) {
        p->counts = counts_bytes(a, &a->recv, a->recv.type, members, 0);
        return p->counts != NULL;
    }
    int64_t *const own = problem_counts(0, k->size);

    p->remote_counts = counts_bytes(a, &a->recv, a->recv.type, members, 1);
    p->counts = own;
    p->bytes = side_bytes(a, &a->send);
    if (own != NULL) /* in the local group a rank knows only its own count */
        own[k->rank] = p->bytes;
    return own != NULL && p->remote_counts != NULL;
}

/* Fill in the problem from this rank's arguments. Returns false without memory. */
bool problem_fill(struct execution *e)
{
    const struct call *const c = e->call;
    const struct communicator *const k = c->comm;
    const struct arguments *const a = e->arguments;
    const bool gathers = c->operation == OP_gather || c->operation == OP_gatherv;
    const bool root = c->root == k->rank;
    /* the side on which this rank specifies sizes in a rooted operation */
    const struct side *const rooted = gathers == root ? &a->recv : &a->send;
    const int members = k->inter ? k->remote_size : k->size;
    struct problem *const p = &e->problem;

    *p = (struct problem){.size = k->size,
                          .remote_size = k->inter ? k->remote_size : 0,
                          .root = c->root,
                          .unit = 1,
                          .alpha = private_comm_link(k)->alpha,
                          .beta = link_byte_ns(private_comm_link(k)),
                          .first_group = k->first_group};
    switch (c->operation) {
    case OP_barrier: return true;
    case OP_alltoall: p->bytes = side_bytes(a, &a->recv); return true;
    case OP_gather:
    case OP_scatter: p->bytes = side_bytes(a, rooted); return true;
    case OP_gatherv:
    case OP_scatterv:
        if (!root) { /* this rank knows only its own size */
            p->bytes = side_bytes(a, rooted);
            return true;
        }
        p->counts = counts_bytes(a, rooted, rooted->type, members, 0);
        return p->counts != NULL;
    case OP_alltoallv:
        p->remote_counts = counts_bytes(a, &a->recv, a->recv.type, members, 1);
        p->counts = argument_in_place(a, a->sendbuf)
                        ? p->remote_counts
                        : counts_bytes(a, &a->send, a->send.type, members, 0);
        return p->counts != NULL && p->remote_counts != NULL;
    case OP_allgather:
        p->bytes = side_bytes(a, k->inter ? &a->send : &a->recv);
        p->remote_bytes = k->inter ? side_bytes(a, &a->recv) : 0;
        return true;
    case OP_allgatherv: return fill_allgatherv(e, members);
    case OP_reduce_scatter:
        p->counts = counts_bytes(a, &a->recv, a->send.type, members, 0);
        return p->counts != NULL;
    case OP_reduce_scatter_block: p->bytes = bytes_of(a, a->recv.count, a->send.type); return true;
    default: /* bcast, reduce, allreduce */ p->bytes = side_bytes(a, &a->send); return true;
    }
}

bool problem_is_known(const struct execution *e)
{
    const int operation = e->call->operation;

    return has_algorithms[operation][e->call->comm->inter] && operation_is_sized(operation) &&
           /* each group knows only the counts of the other group */
           !(operation == OP_allgatherv && e->call->comm->inter);
}

/* Return the bytes, or -1 if not all members know them. */
int64_t problem_bytes(const struct execution *e)
{
    if (!problem_is_known(e))
        return -1;
    return e->problem.counts != NULL ? problem_sum(&e->problem)
                                     : e->problem.bytes + e->problem.remote_bytes;
}

/* Return the sum, or below the maximum, of the counts. */
int64_t problem_sum(const struct problem *p)
{
    int64_t whole = 0;

    for (int i = 0; i < p->size; i++)
        whole += p->counts[i];
    return whole;
}

int64_t problem_largest(const struct problem *p)
{
    int64_t most = 0;

    for (int i = 0; i < p->size; i++)
        most = p->counts[i] > most ? p->counts[i] : most;
    return most;
}
