/* Shapes of message calls: operation, communicator, call site and peer.
 *
 * The results of a thread's last lookups are cached by call site, communicator and peer: in sets of
 * a few entries each, the newest first.
 */
#include <string.h>

#include "base/recorder.h"
#include "callsite/callsite.h"
#include "record/communicator.h"
#include "record/message.h"
#include "record/record.h"

enum { SETS = 16, SET_ENTRIES = 4 };

/* Return the shape of a message call with a peer, or without one if the table is full. */
const struct call_shape *message_shape_of_peer(struct shape_group *group, int rank)
{
    static struct map shapes; /* group and peer -> struct call_shape * */
    const uint64_t key = (uint64_t)group->base.id << 32 | (uint32_t)rank;

    if (rank < 0)
        return &group->base;
    struct call_shape *shape = map_get(&shapes, key);

    if (shape != NULL)
        return shape;
    const struct call_shape wanted = {
        .root = rank, .sent = -1, .received = -1, .flags = group->base.flags};

    shape = call_shape_find(group, &wanted);
    if (shape == NULL)
        return &group->base;
    recorder_lock();
    map_put(&shapes, key, shape);
    recorder_unlock();
    return shape;
}

static bool entry_fill(struct message_entry *e, int operation, int rank, MPI_Comm comm,
                       const void *caller, struct site *site)
{
    /* Calls without a communicator, such as a Wait, are recorded on the first one. */
    struct communicator *const c = comm == COMM_NONE ? atomic_load(&comm_first) : comm_find(comm);
    const int members = c == NULL ? 0 : c->inter ? c->remote_size : c->size;

    e->shape = NULL;
    e->generation = atomic_load_explicit(&recorder.generation, memory_order_relaxed);
    if (c == NULL || c->unrecorded || rank >= members)
        return false;
    if (site == NULL)
        site = callsite_find(caller);
    e->group = call_shapes_find(operation, c, site);
    if (e->group == NULL)
        return false;
    e->comm = c;
    e->handle = comm;
    e->operation = operation;
    e->rank = rank;
    e->peer = rank >= 0 ? message_number_peer(c, rank) : NULL;
    e->shape = message_shape_of_peer(e->group, rank);
    return true;
}

/* Return the shape and peer of a call, from the thread's cache or from the tables. Returns NULL if
 * the communicator is unknown, or if no process has the rank. Negative ranks are no peers. */
const struct message_entry *message_shape_find(int operation, int rank, MPI_Comm comm,
                                               const void *address)
{
    struct site *const site = python_site();
    const void *const caller = self.fortran_caller != NULL ? self.fortran_caller : address;
    const void *const key = site != NULL ? (const void *)site : caller;
    const int peer = rank >= 0 ? rank : NO_MESSAGE;
    const uint64_t hash = ((uint64_t)(uintptr_t)key >> 2) + (uint64_t)peer * 5 +
                          (uint64_t)operation * 3 + map_key(comm);

    if (self.message_entries == NULL)
        self.message_entries = memory_allocate(SETS * SET_ENTRIES * sizeof(struct message_entry));
    if (self.message_entries == NULL)
        return NULL;
    struct message_entry *const set =
        &self.message_entries[(hash ^ hash >> 5) % SETS * SET_ENTRIES];

    for (struct message_entry *e = set; e < set + SET_ENTRIES; e++)
        if (e->site == key && e->handle == comm && e->operation == operation && e->rank == peer &&
            e->shape != NULL && (site != NULL || recorder.options.stack == 1) &&
            e->generation == atomic_load_explicit(&recorder.generation, memory_order_relaxed))
            return e;
    memmove(set + 1, set, (SET_ENTRIES - 1) * sizeof *set);
    set->site = key;
    return entry_fill(set, operation, peer, comm, caller, site) ? set : NULL;
}

/* Return the shape of a call without a communicator, or NULL if it has none. */
const struct call_shape *message_shape_without_comm(int operation, const void *address)
{
    const struct message_entry *const e =
        message_shape_find(operation, NO_MESSAGE, COMM_NONE, address);

    return e != NULL ? e->shape : NULL;
}
