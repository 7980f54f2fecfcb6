/* Blocking calls on messages, and calls that start or create a request (message.c). */
#pragma once
#include "base/pmpi.h"
#include "record/call.h"
#include "record/message_epochs.h"
#include "record/message_log.h"
#include "record/message_number.h"
#include "record/message_request.h"
#include "record/message_shape.h"
#include "record/message_side.h"
#include "record/record.h"

struct message_buffer { /* addresses of the arguments, as in struct side */
    const void *count, *type;
};
struct message_arguments {
    struct message_buffer send, recv; /* of the sent and of the received message */
    MPI_Comm comm;
    uint64_t object; /* map_key of the window or file of a call without messages, or 0 */
    struct envelope sent, received; /* sent: also the target of a call on a window */
    int partitions;                 /* 0 if the message is not partitioned */
    bool large, fortran;
    uint8_t lock; /* enum lock_type of a call that locks a window */
};
struct message_call {
    int64_t enter_ns; /* 0 if the call is not recorded */
    int operation;
    const void *address;
    const struct call_shape *shape;
    struct record *open;
    enum spent spent;      /* class of its time */
    bool is_local;         /* it has no messages: a call on a window, file, communicator etc. */
    uint8_t choice;        /* of the record of a local call: enum lock_type */
    uint32_t epoch;        /* number of a MPI_Win_post or MPI_Win_start on its window, else 0 */
    bool creates_request;  /* a persistent one */
    bool numbered;         /* its messages have numbers, or get them at their completion */
    struct activity outer; /* the call of this thread whose callback made this call */
    uint64_t stamp;
    struct message_side sent, received;
    MPI_Status status; /* in place of a status that the program ignores */
};
void message_begin_active(struct message_call *m, int operation, const struct message_arguments *a,
                          const void *address);
void message_failed(struct message_call *m, int error);
int64_t message_finish(struct message_call *m, int error);
void message_add_poll(const struct message_call *m, const struct message_arguments *a, int64_t now);
struct record *message_write(const struct message_call *m);
int64_t message_buffer_bytes(const struct message_arguments *a, const struct message_buffer *b);
void message_end(struct message_call *m, int error, const struct message_arguments *a,
                 const void *status, bool matched);
void message_posted(struct message_call *m, int error, const struct message_arguments *a,
                    MPI_Request request);

static inline void message_begin(struct message_call *m, int operation,
                                 const struct message_arguments *a, const void *address)
{
    m->spent = SPENT_POINT_TO_POINT;
    m->is_local = false;
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
