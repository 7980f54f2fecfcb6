/* Whether a call's arguments are what the library accepts.
 *
 * A call that it refuses must reach it, for its error code and its handler, and must not have taken
 * part in anything. So all is looked at here that a library checks before its first message, and
 * what is found wrong goes to the library, which has the last word. What only a library can tell
 * (whether a type is committed, which types an operation is for) is asked of it on a communicator
 * of this process alone, whose errors are returned.
 *
 * Threads: any; the table is read without locks, the library asked by one at a time. The
 * communicator is made in MPI_Init and freed in MPI_Finalize.
 */
#include <pthread.h>

#include "switch.h"

static MPI_Comm alone;  /* MPI_COMM_NULL: under Sessions there is no MPI_COMM_SELF */
static struct map good; /* predefined types, and predefined operations with them */
/* One thread uses it at a time. Not recorder.lock: a library may run an operation of the program's
 * meanwhile, which may wait for Python's lock, whose owner may wait for recorder.lock. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

void valid_start(void)
{
    int initialised = 0;

    alone = MPI_COMM_NULL;
    pmpi.Initialized(&initialised);
    if (initialised && pmpi.Comm_split(MPI_COMM_SELF, 0, 0, &alone) == MPI_SUCCESS)
        pmpi.Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
}

void valid_end(void)
{
    if (alone != MPI_COMM_NULL)
        pmpi.Comm_free(&alone);
}

bool is_reduction(int operation)
{
    return operation == OP_reduce || operation == OP_allreduce || operation == OP_reduce_scatter ||
           operation == OP_reduce_scatter_block;
}

/* Whether there is somebody to ask. Where a member has nobody no reduction is switched (private.c):
 * its errors would come in the middle of a schedule. */
bool valid_asks(void)
{
    return alone != MPI_COMM_NULL;
}

/* ---- types and operations: only what is predefined is remembered, as other handles may be freed
 * and come again. */

static bool known(uint64_t key)
{
    return map_get(&good, key) != NULL;
}

static void remember(uint64_t key)
{
    recorder_lock();
    map_put(&good, key, &alone); /* anything but NULL */
    recorder_unlock();
}

static bool type_valid(MPI_Datatype type)
{
    const uint64_t key = hash_mix(1, (uint64_t)(uintptr_t)type);
    char nothing = 0;

    if (type == MPI_DATATYPE_NULL)
        return false;
    if (alone == MPI_COMM_NULL || known(key))
        return true;
    pthread_mutex_lock(&asking);
    const int error = pmpi.Bcast(&nothing, 1, type, 0, alone); /* to nobody */

    pthread_mutex_unlock(&asking);
    if (error == MPI_SUCCESS && type_facts(type).named)
        remember(key);
    return error == MPI_SUCCESS;
}

/* Predefined operations are for some predefined types only. */
static bool operation_valid(MPI_Op op, MPI_Datatype type)
{
    const uint64_t key = hash_mix(hash_mix(2, (uint64_t)(uintptr_t)op), (uint64_t)(uintptr_t)type);
    char nothing = 0;

    if (op == MPI_OP_NULL)
        return false;
    if (alone == MPI_COMM_NULL || known(key))
        return true;
    pthread_mutex_lock(&asking);
    const int error = pmpi.Allreduce(MPI_IN_PLACE, &nothing, 0, type, op, alone);

    pthread_mutex_unlock(&asking);
    if (error == MPI_SUCCESS && op_predefined(op) && type_facts(type).named)
        remember(key);
    return error == MPI_SUCCESS;
}

/* ---- buffers */

static bool side_valid(const struct arguments *a, const struct side *s, const void *buffer,
                       int members)
{
    int64_t elements = s->count != NULL ? argument_count(a, s->count, 0) : 0;

    if (elements < 0 || (s->type != NULL && !type_valid(argument_type(a, s->type, 0))))
        return false;
    for (int i = 0; s->counts != NULL && i < members; i++) {
        const int64_t count = argument_count(a, s->counts, (size_t)i);

        if (count < 0)
            return false;
        elements += count;
    }
    if (s->type == NULL || elements == 0)
        return true;
    const struct type_facts f = type_facts(argument_type(a, s->type, 0));

    /* A derived type may have absolute addresses, with MPI_BOTTOM as buffer, which is NULL. */
    return buffer != NULL || !f.named || f.size == 0;
}

bool arguments_valid(const struct call *c, const struct arguments *a)
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
    if (is_reduction(operation)) { /* count and type stand on one side, or on both in part */
        struct side vector = a->recv;

        vector.count = a->recv.count != NULL ? a->recv.count : a->send.count;
        vector.type = a->send.type;
        return (in || side_valid(a, &vector, a->sendbuf, members)) &&
               (!gets || side_valid(a, &vector, a->recvbuf, members)) &&
               operation_valid(argument_op(a), argument_type(a, vector.type, 0));
    }
    return (!sends || in || side_valid(a, &a->send, a->sendbuf, members)) &&
           (!gets || out || operation == OP_bcast || side_valid(a, &a->recv, a->recvbuf, members));
}
