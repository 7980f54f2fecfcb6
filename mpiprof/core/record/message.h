/* Point-to-point messages: their calls, requests, numbers and log. */
#pragma once
#include "base/pmpi.h"
#include "record/call.h"

/* ---- numbers of messages (message_number.c) */

/* Messages with one peer on one communicator. Both sides count the messages of each class of tags
 * (tag modulo TAG_CLASSES) in the order in which MPI matches them. A counter contains the number of
 * messages in its lower half, and the sum of the codes of their tags in its upper half. */
struct message_peer {
    _Atomic uint64_t sent[TAG_CLASSES], received[TAG_CLASSES];
    struct record *_Atomic counts[TAG_CLASSES]; /* numbers of messages in the log, or NULL */
    atomic_uint last_receive; /* number of the last receive beside a wildcard (open_receives) */
};
struct message_part;
struct message_peer *message_number_peer(const struct communicator *comm, int rank);
uint32_t message_number_next(struct message_peer *peer, const struct message_part *p);
uint32_t message_number_peek(struct message_peer *peer, int tag);
void message_number_return(struct message_peer *peer, int tag, bool received);
void message_number_stop(void);

/* ---- parts of a call: the messages that it sends, receives or completes */

enum {
    PART_UNSURE = 1,    /* the number may be that of another message */
    PART_WILDCARD = 2,  /* posted for any source or any tag */
    PART_COMPLETE = 4,  /* complete when the call returned */
    PART_UNKNOWN = 8,   /* peer or tag are unknown, because the program ignored the status */
    PART_CANCELLED = 16 /* the program has requested to cancel it */
};
struct message_part {
    const struct call_shape *shape; /* of the call that posted it, with its peer */
    int64_t posted_ns, bytes;       /* bytes: -1 if unknown */
    uint32_t number;
    int tag;
    bool received;
    uint8_t flags;
};

/* ---- log of the calls that took long (message_log.c) */

enum { MOST_PARTS = 256, LONG_CALL_NS = 20000 };
struct record *message_log_records(int parts);
void message_log_part(struct record *r, const struct message_part *p);
void message_log_call(struct record *r, const struct call_shape *shape, int all);
void message_log_open(struct record *r, int64_t enter_ns);
void message_log_close(struct record *r, int parts, enum kind kind, int64_t enter_ns,
                       int64_t exit_ns);
void message_log_clear(int parts);

/* ---- shapes of message calls (message_shape.c) */

struct message_entry { /* lookup results of one of the thread's last calls */
    const void *site;  /* or the address of a native call */
    const struct call_shape *shape;
    struct communicator *comm;
    struct shape_group *group;
    struct message_peer *peer;
    MPI_Comm handle;
    int operation, rank;
    uint32_t generation;
};

const struct message_entry *message_shape_find(int operation, int rank, MPI_Comm comm,
                                               const void *address);
const struct call_shape *message_shape_without_comm(int operation, const void *address);
const struct call_shape *message_shape_of_peer(struct shape_group *group, int rank);

/* ---- one message of a call (message_side.c) */

enum { NO_MESSAGE = -1000 };
struct envelope {
    int rank, tag; /* the rank is NO_MESSAGE if the call has no such message */
};
struct message_side {
    struct message_part part;
    struct communicator *comm; /* NULL if the call has no such message */
    struct shape_group *group;
    struct message_peer *peer; /* NULL if the message has no number */
    struct envelope envelope;
    uint32_t posted_after; /* the communicator's last receive beside a wildcard */
    bool numbered_late;    /* only its completion shows which message it is */
    bool numbered;         /* it has been counted */
    bool peeked;           /* a probe, which leaves the message to a later receive */
};
void message_side_begin(struct message_side *s, int operation, struct envelope e, bool received,
                        MPI_Comm comm, const void *address);
void message_side_post(struct message_side *s, int64_t now);
void message_side_complete(struct message_side *s, const void *status);
void message_side_fail(struct message_side *s, bool refused);

/* Return true if a message exists: not to or from MPI_PROC_NULL. */
static inline bool message_side_exists(const struct message_side *s)
{
    return s->comm != NULL && (s->envelope.rank >= 0 || s->numbered_late);
}

/* ---- blocking calls, and calls that start or create a request (message.c) */

enum message_level { MESSAGES_OFF, MESSAGES_SUMS, MESSAGES_AUTO, MESSAGES_ALL };
extern _Atomic enum message_level message_level;

struct message_arguments {
    struct arguments buffers; /* counts and types: `send` of the sent, `recv` of the received */
    MPI_Comm comm;
    struct envelope sent, received;
    int partitions; /* 0 if the message is not partitioned */
};
struct message_call {
    int64_t enter_ns; /* 0 if the call is not recorded */
    const struct call_shape *shape;
    struct record *open;
    bool creates_request;  /* a persistent one */
    bool numbered;         /* its messages have numbers, or get them at their completion */
    struct activity outer; /* the call of this thread whose callback made this call */
    uint64_t stamp;
    struct message_side sent, received;
    MPI_Status status; /* in place of a status that the program ignores */
};
void message_level_start(void);
bool message_is_logged(int64_t elapsed);
void message_cost_add(int64_t cost, int64_t now);
void message_begin_active(struct message_call *m, int operation, const struct message_arguments *a,
                          const void *address);
void message_failed(struct message_call *m, int error);
void message_end(struct message_call *m, int error, const struct message_arguments *a,
                 const void *status, bool matched);
void message_posted(struct message_call *m, int error, const struct message_arguments *a,
                    MPI_Request request);

/* Return true after MPI_Pcontrol(0): messages are numbered, not recorded. */
static inline bool message_is_paused(void)
{
    return atomic_load_explicit(&recorder.paused, memory_order_relaxed);
}

static inline void message_begin(struct message_call *m, int operation,
                                 const struct message_arguments *a, const void *address)
{
    m->enter_ns = 0;
    if (atomic_load_explicit(&recorder.active, memory_order_relaxed) &&
        (self.call == NULL || !call_within(m)))
        message_begin_active(m, operation, a, address);
}

/* Return the address for the status that the library fills. */
static inline void *message_status(struct message_call *m, void *status, bool fortran)
{
    return m->enter_ns != 0 && m->shape != NULL && status_is_ignored(status, fortran) ? &m->status
                                                                                      : status;
}

/* ---- open requests of messages (message_request.c) */

struct message_request {
    struct message_request *next;
    uint64_t handle;
    struct message_side side;
    bool persistent, active;
};
extern atomic_int message_request_count;
void message_request_lock(void);
void message_request_unlock(void);
void message_request_add(const struct message_side *side, MPI_Request handle, bool persistent);
struct message_request *message_request_take(MPI_Request handle);
void message_request_put(struct message_request *r);
void message_request_free(struct message_request *r);
void message_request_start(struct message_request *r, int64_t now);
void message_request_complete(struct message_request *r, const void *status);
