/* Open requests of messages, by handle.
 *
 * All receives have an entry, and those sends that may still wait for their receiver. A library may
 * return one handle for many sends that are already complete, so a new request replaces the entry of
 * its handle. A Wait or Test takes the entries of its requests out of the table, and puts those back
 * that are not complete. So no other call finds them meanwhile; MPI forbids that two threads
 * complete the same request.
 */
#include "record/message_request.h"

#include "base/base.h"
#include "record/message_shape.h"
#include "record/message_side.h"
#include "record/record.h"

enum { MOST_REQUESTS = 1 << 20, ADDED_AT_ONCE = 64 };

atomic_int message_request_count;
pthread_mutex_t message_request_mutex = PTHREAD_MUTEX_INITIALIZER;
SPARSE struct message_request *message_request_buckets[1 << REQUEST_BUCKET_BITS];
struct message_request *message_request_unused;

/* Return an unused entry, or NULL if memory is insufficient. The caller has the lock. */
static struct message_request *entry_new(void)
{
    if (message_request_unused == NULL) {
        struct message_request *const more = memory_allocate(ADDED_AT_ONCE * sizeof *more);

        for (int i = 0; more != NULL && i < ADDED_AT_ONCE; i++)
            message_request_free(&more[i]);
    }
    struct message_request *const r = message_request_unused;

    if (r != NULL)
        message_request_unused = r->next;
    return r;
}

/* Mark a message as posted or complete, and count the open receives for any source or any tag. */
static inline void active_set(struct message_request *r, bool active)
{
    if (r->side.numbered_late && r->active != active) {
        struct open_receives *const receives = &r->side.comm->receives;
        const int change = active ? 1 : -1;

        atomic_fetch_add_explicit(&receives->wildcards, change, memory_order_relaxed);
        if (r->side.envelope.rank < 0)
            atomic_fetch_add_explicit(&receives->any_source, change, memory_order_relaxed);
    }
    r->active = active;
}

/* Mark the order of a communicator's receives as unknown if this one gets no number. */
static void number_lost(const struct message_side *s)
{
    if (s->numbered_late)
        atomic_store(&s->comm->receives.order_is_unknown, true);
}

/* Give up a message whose completion the recorder does not see. */
void message_request_lose(struct message_request *r)
{
    if (r->active)
        number_lost(&r->side);
    active_set(r, false);
}

void message_request_add(const struct message_side *side, MPI_Request handle, bool persistent)
{
    if (atomic_load_explicit(&message_request_count, memory_order_relaxed) >= MOST_REQUESTS) {
        number_lost(side);
        return;
    }
    const bool single = message_request_lock();
    struct message_request *const old = message_request_take(handle);
    struct message_request *const r = old != NULL ? old : entry_new();

    if (r != NULL) {
        if (old != NULL)
            message_request_lose(old);
        r->handle = map_key(handle);
        r->side = *side;
        r->persistent = persistent;
        r->active = false;
        active_set(r, !persistent);
        message_request_put(r);
    } else {
        number_lost(side);
    }
    message_request_unlock(single);
}

/* Set the time at which a partitioned send was posted: that of the last MPI_Pready. */
void message_request_set_ready(MPI_Request handle, int64_t ready_ns)
{
    const bool single = message_request_lock();
    struct message_request *r = *message_request_bucket(map_key(handle));

    while (r != NULL && r->handle != map_key(handle))
        r = r->next;
    if (r != NULL && r->side.partitioned && r->active && r->side.part.posted_ns < ready_ns)
        r->side.part.posted_ns = ready_ns;
    message_request_unlock(single);
}

/* Start a persistent request. */
void message_request_start(struct message_request *r, int64_t now)
{
    if (r->side.numbered_late) { /* the part has the source and the tag of the last message */
        r->side.part.tag = r->side.envelope.tag;
        r->side.part.shape = message_shape_of_peer(r->side.group, r->side.envelope.rank);
    }
    if (r->side.part.received)
        r->side.part.bytes = -1;
    message_side_post(&r->side, now, 0);
    if (!record_is_paused())
        message_shape_add(r->side.part.shape, 1, 0, r->side.part.received ? 0 : r->side.part.bytes,
                          0);
    active_set(r, true);
}

/* Complete a receive that was cancelled, as its status shows. It has received no message. */
static void receive_cancel(struct message_side *s)
{
    s->part.flags |= PART_CANCELLED | PART_UNSURE | PART_COMPLETE;
    if (s->is_untagged)
        atomic_store(&s->peer->order_is_unknown, true);
    if (s->numbered_late)
        s->part.flags |= PART_UNKNOWN;
    else if (s->numbered && !message_number_return_last(s->peer, s->part.tag, s->counter))
        atomic_store(&s->comm->receives.order_is_unknown, true);
}

/* Complete the message of an entry. status: NULL if the program ignores it. */
void message_request_complete(struct message_request *r, const void *status)
{
    struct message_side *const s = &r->side;
    struct message_part *const p = &s->part;

    if (!r->active)
        return;
    active_set(r, false);
    /* While a Wait is under way, another thread can cancel its request, which only the status
     * shows. */
    const bool cancelled = status != NULL && status_bytes(status) < 0;

    if (p->received && cancelled) {
        receive_cancel(s);
        return;
    }
    if (p->received && p->flags & PART_CANCELLED && status == NULL) {
        p->flags |= PART_UNSURE;
        atomic_store(&s->comm->receives.order_is_unknown, true);
    } else if (p->received) {
        p->flags &= (uint8_t)~PART_CANCELLED; /* the message came before the request to cancel it */
    } else if (p->flags & PART_CANCELLED && cancelled && s->numbered) {
        message_number_return(s->peer, p->tag, false);
    }
    message_side_complete(s, status);
    if (p->received && (p->bytes >= 0 || (p->flags & PART_CANCELLED) == 0))
        message_shape_add(p->shape, 0, 0, 0, p->bytes >= 0 ? p->bytes : s->most_bytes);
}
