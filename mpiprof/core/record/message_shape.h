/* Shapes of message calls: operation, communicator, call site and peer (message_shape.c). */
#pragma once
#include "base/recorder.h"
#include "callsite/callsite.h"
#include "record/call.h"
#include "record/communicator.h"
#include "record/message_log.h"
#include "record/message_number.h"
#include "record/record.h"

enum { NO_MESSAGE = -1000 };
struct envelope {
    int rank, tag; /* the rank is NO_MESSAGE if the call has no such message */
};
/* One message of a call (message_side.c). */
struct message_side {
    struct message_part part;
    struct communicator *comm; /* NULL if the call has no such message */
    struct shape_group *group;
    struct message_peer *peer; /* NULL if the message has no number */
    struct envelope envelope;
    uint64_t counter;      /* of the peer, after this message was added */
    int64_t most_bytes;    /* size of the buffer of a receive, or -1 */
    uint32_t posted_after; /* the communicator's last receive beside a wildcard */
    uint32_t comm_number;  /* part of the number, for communicators that share their identity */
    uint32_t init_number;  /* of a partitioned request, among those with its peer and tag */
    uint32_t starts;       /* of a partitioned request, so far */
    bool numbered_late;    /* only its completion shows which message it is */
    bool numbered;         /* it has been counted */
    bool has_any_tag;      /* a receive from a known source */
    bool is_untagged;      /* it is counted in `untagged` of its peer */
    bool is_in_order;      /* the next message of its peer matches it, with whatever tag */
    uint32_t order;        /* number of such a receive among all messages of the peer */
    bool partitioned;      /* numbered by request and start (message_number_init) */
    bool peeked;           /* a probe, which leaves the message to a later receive */
    bool entered;          /* the call is counted as under way */
};
struct message_entry { /* lookup results of one of the thread's last calls */
    const void *site;  /* or the address of a native call */
    uint64_t object;   /* handle of its communicator, window or file */
    int operation;
    uint32_t generation;
    struct message_side side; /* of a message with a tag; the shape is NULL if there is none */
};

enum { SHAPE_SETS = 16, SHAPE_SET_ENTRIES = 4 };

const struct message_entry *message_shape_fill(struct message_entry *set, int operation, int rank,
                                               bool received, uint64_t object, const void *caller,
                                               struct site *site);
const struct call_shape *message_shape_of_peer(struct shape_group *group, int rank);
bool message_shape_make_cache(void);

/* Return the shape and peer of a call, from the thread's cache or from the tables. Returns NULL if
 * the object is unknown, or if no process has the rank. Negative ranks are no peers.
 *
 * object: map_key of the handle of the call's communicator, window or file. */
static inline const struct message_entry *message_shape_find(int operation, int rank, bool received,
                                                             uint64_t object, const void *address)
{
    struct site *const site = python_site();
    const void *const caller = self.fortran_caller != NULL ? self.fortran_caller : address;
    const void *const key = site != NULL ? (const void *)site : caller;
    const uint64_t hash =
        ((uint64_t)(uintptr_t)key >> 2) + (uint64_t)rank * 5 + (uint64_t)operation * 3 + object;

    if (self.message_entries == NULL && !message_shape_make_cache())
        return NULL;
    struct message_entry *const set =
        &self.message_entries[(hash ^ hash >> 5) % SHAPE_SETS * SHAPE_SET_ENTRIES];

    if (site != NULL || recorder.options.stack == 1)
        for (struct message_entry *e = set; e < set + SHAPE_SET_ENTRIES; e++)
            if (e->site == key && e->side.envelope.rank == rank && e->object == object &&
                e->operation == operation && e->side.part.received == received &&
                e->side.part.shape != NULL &&
                e->generation == atomic_load_explicit(&recorder.generation, memory_order_relaxed))
                return e;
    return message_shape_fill(set, operation, rank, received, object, caller, site);
}

/* Add to the sums of a shape. The calling thread has a window, so a second thread is known. */
static inline void message_shape_add(const struct call_shape *shape, int64_t calls, int64_t elapsed,
                                     int64_t sent, int64_t received)
{
    struct record *const r = record_totals(CONTENT_MESSAGES, (struct call_shape *)(uintptr_t)shape);

    if (r == NULL)
        return;
    const bool single = single_thread_enter();

    record_totals_add(r, calls, elapsed, sent, received, single);
    single_thread_leave(single);
}

/* Return the shape of a call without a communicator, or NULL if it has none. */
static inline const struct call_shape *message_shape_without_comm(int operation,
                                                                  const void *address)
{
    const struct message_entry *const e =
        message_shape_find(operation, NO_MESSAGE, false, map_key(COMM_NONE), address);

    return e != NULL ? e->side.part.shape : NULL;
}
