/* Shapes of message calls: operation, communicator, call site and peer.
 *
 * Calls on windows and files have shapes of their window or file. The results of a thread's last
 * lookups are cached by call site, communicator (or window or file) and peer: in sets of
 * a few entries each, the newest first.
 */
#include <string.h>

#include "base/recorder.h"
#include "callsite/callsite.h"
#include "record/communicator.h"
#include "record/message_number.h"
#include "record/message_shape.h"
#include "record/record.h"

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

/* Describe a message of a call. */
static void side_describe(struct message_side *s, int operation, int rank, bool received)
{
    const bool wildcard = received && rank == MPI_ANY_SOURCE;
    const int64_t equivalent = s->comm->equivalence.number;
    s->part.bytes = -1;
    s->part.flags = wildcard ? PART_WILDCARD | PART_ANY_SOURCE : 0;
    s->peeked = operation == OP_probe || operation == OP_iprobe;
    s->numbered_late =
        wildcard || (rank >= 0 && (s->peeked || operation == OP_mprobe || operation == OP_improbe));
    s->partitioned = operation == OP_psend_init || operation == OP_precv_init;
    s->peer = rank >= 0 && operation < OP_LOCAL ? message_number_peer(s->comm, rank, s->partitioned)
                                                : NULL;
    /* Equivalent communicators share their identity in the tables (comm_id.c), so the number of
     * the communicator is a part of the number of its messages. */
    s->comm_number = equivalent != 0 ? (uint32_t)hash_mix((uint64_t)equivalent, 0) : 0;
}

/* Return the entry of a call's communicator, window or file, or NULL if it is unknown. Calls without
 * one, such as a Wait, are recorded on the first communicator. */
static struct communicator *object_find(int operation, uint64_t object)
{
    if (object == map_key(COMM_NONE))
        return atomic_load(&comm_first);
    if (operation >= OP_ONE_SIDED && operation < OP_FILES)
        return map_get(&window_file_comm_windows, object);
    if (operation >= OP_FILES && operation < OP_FILES_END)
        return map_get(&window_file_comm_files, object);
    return comm_find((MPI_Comm)(uintptr_t)object);
}

static bool entry_fill(struct message_entry *e, int operation, int rank, bool received,
                       uint64_t object, const void *caller, struct site *site)
{
    struct communicator *const c = object_find(operation, object);
    const int members = c == NULL ? 0 : c->inter ? c->remote_size : c->size;
    struct message_side *const s = &e->side;

    *s = (struct message_side){.envelope = {.rank = rank}, .part.received = received};
    e->generation = atomic_load_explicit(&recorder.generation, memory_order_relaxed);
    if (c == NULL || c->unrecorded || rank >= members)
        return false;
    if (site == NULL)
        site = callsite_find(caller);
    s->group = call_shapes_find(operation, c, site);
    if (s->group == NULL)
        return false;
    s->comm = c;
    e->object = object;
    e->operation = operation;
    side_describe(s, operation, rank, received);
    s->part.shape = message_shape_of_peer(s->group, rank);
    return true;
}

/* Allocate the calling thread's cache. Returns false if memory is insufficient. */
bool message_shape_make_cache(void)
{
    self.message_entries =
        memory_allocate(SHAPE_SETS * SHAPE_SET_ENTRIES * sizeof(struct message_entry));
    return self.message_entries != NULL;
}

/* Replace the oldest entry of a set by the results of a lookup in the tables. */
const struct message_entry *message_shape_fill(struct message_entry *set, int operation, int rank,
                                               bool received, uint64_t object, const void *caller,
                                               struct site *site)
{
    memmove(set + 1, set, (SHAPE_SET_ENTRIES - 1) * sizeof *set);
    set->site = site != NULL ? (const void *)site : caller;
    return entry_fill(set, operation, rank, received, object, caller, site) ? set : NULL;
}
