/* One message of a call, from the time when it is posted to its completion (message_side.c). */
#pragma once
#include "base/base.h"
#include "base/pmpi.h"
#include "record/communicator.h"
#include "record/message_log.h"
#include "record/message_number.h"
#include "record/message_shape.h"
#include "record/record.h"

void message_side_start_partitioned(struct message_side *s);
void message_side_begin_without_tag(struct message_side *s);
void message_side_post_untagged(struct message_side *s);
void message_side_identify(struct message_side *s, const void *status);
void message_side_count_beside_wildcard(struct message_side *s);
void message_side_fail(struct message_side *s, bool refused);

/* Return true if a message exists: not to or from MPI_PROC_NULL. */
static inline bool message_side_exists(const struct message_side *s)
{
    return s->comm != NULL && (s->envelope.rank >= 0 || s->numbered_late);
}

/* Find the shape and peer of a message. */
static inline void message_side_begin(struct message_side *s, int operation, struct envelope e,
                                      bool received, MPI_Comm comm, const void *address)
{
    const struct message_entry *const entry =
        e.rank != NO_MESSAGE
            ? message_shape_find(operation, e.rank, received, map_key(comm), address)
            : NULL;

    if (entry == NULL) {
        s->comm = NULL;
        s->part.shape = NULL;
        s->entered = false;
        return;
    }
    *s = entry->side;
    s->part.tag = s->envelope.tag = e.tag;
    if (e.tag < 0)
        message_side_begin_without_tag(s);
}

static inline bool message_side_has_wildcards(const struct message_side *s)
{
    return atomic_load_explicit(&s->comm->receives.wildcards, memory_order_relaxed) > 0;
}

static inline uint32_t message_side_number(const struct message_side *s, uint64_t counter,
                                           uint64_t code)
{
    return message_number_of(counter, code) + s->comm_number;
}

/* Number a message. While another receive for any source or any tag is open, it is unknown which of
 * them gets which message of the peer. calls: 1 if a call begins, which message_side_leave ends. If
 * such calls of several threads overlap, MPI leaves the order of their messages open, so their
 * numbers are unsure. The later call is detected here, the other one in message_side_leave. */
static inline void message_side_count(struct message_side *s, uint16_t calls)
{
    struct message_part *const p = &s->part;
    const uint64_t code = message_number_code(p->tag);
    const struct message_added before =
        message_number_add(s->peer, p->tag, code, p->shape->id, p->received, calls);

    p->number = message_side_number(s, before.counter, code);
    s->counter = before.counter + code + 1;
    s->numbered = true;
    if (before.calls > 0)
        p->flags |= PART_UNSURE;
    if (p->received && message_side_has_wildcards(s))
        message_side_count_beside_wildcard(s);
}

/* Number a message when it is posted, unless only its completion shows which message it is. */
static inline void message_side_post(struct message_side *s, int64_t now, uint16_t calls)
{
    struct message_part *const p = &s->part;

    p->posted_ns = now;
    p->flags &= PART_WILDCARD | PART_ANY_SOURCE;
    s->posted_after =
        atomic_load_explicit(&s->comm->receives.beside_wildcards, memory_order_relaxed);
    if (s->numbered_late || s->peer == NULL) {
        p->flags |= PART_UNSURE;
        if (s->has_any_tag)
            message_side_post_untagged(s);
        return;
    }
    if (s->partitioned) {
        message_side_start_partitioned(s);
        return;
    }
    message_side_count(s, calls);
    s->entered = calls > 0;
    if (p->received &&
        (message_side_has_wildcards(s) ||
         atomic_load_explicit(&s->comm->receives.order_is_unknown, memory_order_relaxed) ||
         atomic_load_explicit(&s->peer->tags_are_unknown, memory_order_relaxed)))
        p->flags |= PART_UNSURE;
}

/* End a call that has posted a message. */
static inline void message_side_leave(struct message_side *s)
{
    if (!s->entered)
        return;
    s->entered = false;
    if (message_number_leave(s->peer, s->part.tag, s->part.received) != s->counter)
        s->part.flags |= PART_UNSURE;
}

/* Complete a message. status: NULL if the program ignores it. */
static inline void message_side_complete(struct message_side *s, const void *status)
{
    s->part.flags |= PART_COMPLETE;
    if (!s->part.received)
        return;
    /* An earlier receive may have been lost or cancelled since this one was posted. */
    if (atomic_load_explicit(&s->comm->receives.order_is_unknown, memory_order_relaxed))
        s->part.flags |= PART_UNSURE;
    if (status != NULL)
        s->part.bytes = status_bytes(status);
    if (s->numbered_late)
        message_side_identify(s, status);
}
