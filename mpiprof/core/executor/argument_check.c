/* Checks that the library will accept a call's arguments.
 *
 * A call that the library refuses must reach the library, for its error code and error handler, and
 * must not have taken part in a schedule before. So this file checks everything that a library
 * checks before its first message. Two properties only the library knows: if a type is committed,
 * and which types an operation supports. They are queried on a communicator that contains only this
 * process and returns errors.
 *
 * Threads: any. The table is read without a lock; one thread at a time queries the library.
 */
#include <limits.h>
#include <pthread.h>

#include "base/base.h"
#include "base/mpi_types.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/execution.h"
#include "record/communicator.h"

static MPI_Comm self_comm; /* MPI_COMM_NULL under Sessions, which have no MPI_COMM_SELF */
/* valid predefined types, and valid pairs of a predefined operation and type */
static struct map valid_handles;
static struct {     /* checks that the library performs before its first message */
    bool aliases;   /* the same buffer on both sides, in any operation */
    bool operands;  /* the same buffer, only in reduce and allreduce */
    bool own_sizes; /* alltoall(v): different sizes from a rank to itself */
} refuses;
/* Serialises the queries. recorder.lock would risk a deadlock: the library may run a user-defined
 * operation that waits for Python's GIL, while the GIL's owner waits for recorder.lock. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* Create the communicator. Find the library's checks by trying wrong calls, because they depend on
 * release and settings (mpi_param_check, MPIR_CVAR_COLL_ALIAS_CHECK). Only a library that compares
 * sizes in advance rejects the last call. */
void argument_check_start(void)
{
    int64_t number = 0, numbers[2] = {0};
    int initialised = 0;

    self_comm = MPI_COMM_NULL;
    pmpi.Initialized(&initialised);
    if (!initialised || pmpi.Comm_split(MPI_COMM_SELF, 0, 0, &self_comm) != MPI_SUCCESS)
        return;
    pmpi.Comm_set_errhandler(self_comm, MPI_ERRORS_RETURN);
    refuses.aliases = pmpi.Reduce_scatter_block(&number, &number, 1, MPI_INT64_T, MPI_MAX,
                                                self_comm) != MPI_SUCCESS;
    refuses.operands =
        pmpi.Reduce(&number, &number, 1, MPI_INT64_T, MPI_MAX, 0, self_comm) != MPI_SUCCESS;
    refuses.own_sizes =
        pmpi.Alltoall(&number, 1, MPI_INT64_T, numbers, 2, MPI_INT64_T, self_comm) != MPI_SUCCESS;
}

void argument_check_end(void)
{
    if (self_comm != MPI_COMM_NULL)
        pmpi.Comm_free(&self_comm);
}

/* Return true if the library can be queried. Otherwise no reduction runs on a schedule
 * (private_comm.c), because an error would occur in its middle. */
bool argument_check_is_complete(void)
{
    return self_comm != MPI_COMM_NULL;
}

/* ---- types and operations; only predefined handles are stored, because others may be reused */

static bool is_valid_handle(uint64_t key)
{
    return map_get(&valid_handles, key) != NULL;
}

static void handle_store(uint64_t key)
{
    recorder_lock();
    map_put(&valid_handles, key, &self_comm); /* any value but NULL */
    recorder_unlock();
}

static bool type_valid(MPI_Datatype type)
{
    const uint64_t key = hash_mix(1, (uint64_t)(uintptr_t)type);
    char nothing = 0;

    if (type == MPI_DATATYPE_NULL)
        return false;
    if (self_comm == MPI_COMM_NULL || is_valid_handle(key))
        return true;
    lock_acquire(&asking);
    const int error = pmpi.Bcast(&nothing, 1, type, 0, self_comm); /* no receiver exists */

    lock_release(&asking);
    if (error == MPI_SUCCESS && type_properties(type).named)
        handle_store(key);
    return error == MPI_SUCCESS;
}

/* Predefined operations support only some predefined types. */
static bool operation_valid(MPI_Op op, MPI_Datatype type)
{
    const uint64_t key = hash_mix(hash_mix(2, (uint64_t)(uintptr_t)op), (uint64_t)(uintptr_t)type);
    char nothing = 0;

    if (op == MPI_OP_NULL || !operator_is_known(op))
        return false;
    if (self_comm == MPI_COMM_NULL || is_valid_handle(key))
        return true;
    lock_acquire(&asking);
    const int error = pmpi.Allreduce(MPI_IN_PLACE, &nothing, 0, type, op, self_comm);

    lock_release(&asking);
    if (error == MPI_SUCCESS && predefined_reduction(op) != NULL && type_properties(type).named)
        handle_store(key);
    return error == MPI_SUCCESS;
}

/* ---- buffers */

/* Return true if NULL is valid as MPI_BOTTOM: for a type with absolute addresses, or blocks that do
 * not start at 0. */
static bool accepts_null(const struct arguments *a, const struct side *s, int members)
{
    const struct type_properties f = type_properties(argument_type(a, s->type, 0));

    if (f.size == 0 || (!f.named && f.true_lower != 0))
        return true;
    if (!argument_has_counts(s) || s->displs == NULL)
        return false;
    for (size_t i = 0; i < (size_t)members; i++)
        if (argument_count(a, s->counts, i) > 0 && argument_displacement(a, s->displs, i) == 0)
            return false;
    return true;
}

static bool side_valid(const struct arguments *a, const struct side *s, const void *buffer,
                       int members)
{
    if (s->type == NULL) /* barrier */
        return true;
    const void *const counts = argument_has_counts(s) ? s->counts : s->count;
    const size_t blocks = argument_has_counts(s) ? (size_t)members : 1;
    int64_t elements = 0;

    if (counts == NULL || !type_valid(argument_type(a, s->type, 0)))
        return false;
    for (size_t i = 0; i < blocks; i++) {
        const int64_t count = argument_count(a, counts, i);

        if (count < 0)
            return false;
        elements += count;
    }
    return elements == 0 || buffer != NULL || accepts_null(a, s, members);
}

/* ---- aliasing and sizes of both sides */

/* Return true if the buffers alias by MPICH's definition: the same type, count and address. The
 * block's address is computed as for a type without gaps. */
static bool blocks_aliased(const struct call *c, const struct arguments *a)
{
    struct self_message_sides own;

    if (!self_message_sides(c, a, &own) || own.sent.type != own.received.type)
        return false;
    if (c->operation == OP_alltoallv)
        return a->sendbuf == a->recvbuf && a->send.counts == a->recv.counts;
    if (own.sent.count == 0 || own.received.count == 0 ||
        (!argument_has_counts(&a->send) && !argument_has_counts(&a->recv) &&
         own.sent.count != own.received.count))
        return false;
    if (c->operation == OP_alltoall)
        return a->sendbuf == a->recvbuf;
    const int64_t before = own.sent.offset - own.received.offset; /* one of the two is 0 */
    const int64_t distance = own.received.buffer - own.sent.buffer;

    return before == 0
               ? distance == 0 /* avoid the query of the size if it does not matter */
               : distance % before == 0 && distance == before * type_properties(own.sent.type).size;
}

static bool operands_aliased(const struct call *c, const struct arguments *a)
{
    if (a->sendbuf != a->recvbuf || (c->operation == OP_reduce && c->root != c->comm->rank))
        return false;
    if (a->recv.counts != NULL) { /* reduce_scatter */
        int64_t elements = 0;

        for (size_t i = 0; i < (size_t)c->comm->size; i++)
            elements += argument_count(a, a->recv.counts, i);
        return refuses.aliases && elements > 0;
    }
    const int64_t elements =
        argument_count(a, a->recv.count != NULL ? a->recv.count : a->send.count, 0);

    if (refuses.aliases)
        return elements > 0;
    /* Open MPI */
    return refuses.operands &&
           ((c->operation == OP_reduce && elements > 0) ||
            (c->operation == OP_allreduce && elements > 1 && a->sendbuf != NULL));
}

/* Copy a root's block to itself if the sizes differ. The library decides if that is an error. */
int argument_check_send_to_self(int operation, const struct self_message_sides *own)
{
    const struct self_block *const s = &own->sent, *const r = &own->received;

    if (self_comm == MPI_COMM_NULL || s->count > INT_MAX || r->count > INT_MAX)
        return self_message_block_bytes(s) > self_message_block_bytes(r) ? MPI_ERR_TRUNCATE
                                                                         : MPI_ERR_OTHER;
    int (*const pass)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm) =
        operation == OP_gather || operation == OP_gatherv ? pmpi.Gather : pmpi.Scatter;

    lock_acquire(&asking);
    const int error = pass(self_message_block_at(s), (int)s->count, s->type,
                           self_message_block_at(r), (int)r->count, r->type, 0, self_comm);

    lock_release(&asking);
    return error;
}

bool argument_check_arguments(const struct call *c, const struct arguments *a)
{
    const struct communicator *const k = c->comm;
    const int operation = c->operation, members = k->inter ? k->remote_size : k->size;
    const bool root = c->root == k->rank || c->root == ROOT_NONE;
    const bool gathers = operation == OP_gather || operation == OP_gatherv;
    const bool scatters = operation == OP_scatter || operation == OP_scatterv;
    const bool sends = root || !scatters, gets = root || !(gathers || operation == OP_reduce);
    const bool in = sends && argument_in_place(a, a->sendbuf);
    const bool out = gets && argument_in_place(a, a->recvbuf);

    if (c->root != ROOT_NONE && (c->root < 0 || c->root >= k->size))
        return false;
    if (in && (k->inter || !root || scatters || operation == OP_bcast))
        return false;
    if (out && !(scatters && root && !k->inter))
        return false;
    if (operation_reduces(operation)) { /* one side or both together specify count and type */
        struct side vector = a->recv;

        vector.count = a->recv.count != NULL ? a->recv.count : a->send.count;
        vector.type = a->send.type;
        const bool no_share = operation == OP_reduce_scatter && a->recv.counts != NULL &&
                              argument_count(a, a->recv.counts, (size_t)k->rank) == 0;

        return (in || side_valid(a, &vector, a->sendbuf, members)) &&
               (!gets || no_share || side_valid(a, &vector, a->recvbuf, members)) &&
               operation_valid(argument_operation(a), argument_type(a, vector.type, 0)) &&
               !operands_aliased(c, a);
    }
    if ((sends && !in && a->send.counts != NULL && a->send.displs == NULL) ||
        (gets && a->recv.counts != NULL && a->recv.displs == NULL))
        return false;
    return (!sends || in || side_valid(a, &a->send, a->sendbuf, members)) &&
           (!gets || out || operation == OP_bcast ||
            side_valid(a, &a->recv, a->recvbuf, members)) &&
           !(refuses.aliases && blocks_aliased(c, a)) &&
           !(refuses.own_sizes && (operation == OP_alltoall || operation == OP_alltoallv) &&
             self_message_sizes_differ(c, a));
}
