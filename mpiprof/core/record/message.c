/* Calls that send and receive messages.
 *
 * Every call adds to the sums of its shape: operation, communicator, call site and peer. It is also
 * logged with its messages, in the epochs that are logged completely and if it takes long
 * (message_epochs.h). A call that takes a request leaves its message to the Wait or Test that
 * completes it (message_request.c).
 *
 * Threads: any; the state of a call is on its thread's stack. The library gets the program's
 * arguments, except a status where the program ignores it.
 */
#include "record/message.h"

#include <string.h>

#include "base/mpi_types.h"
#include "base/pmpi.h"
#include "record/communicator.h"
#include "record/interval.h"
#include "record/poll.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

/* A call that creates a persistent request has no message; the starts of the request have. */
static bool call_has_part(const struct message_call *m, const struct message_side *s)
{
    return !m->creates_request && message_side_exists(s);
}

static int call_parts(const struct message_call *m)
{
    return call_has_part(m, &m->sent) + call_has_part(m, &m->received);
}

static enum kind call_kind(const struct message_call *m)
{
    return m->is_local ? KIND_local_call : KIND_message_call;
}

/* Write a call and its messages behind the used records. Returns the call's record, or NULL. */
struct record *message_write(const struct message_call *m)
{
    const int parts = call_parts(m);
    struct record *const r = message_log_records(parts);

    if (r == NULL)
        return NULL;
    if (call_has_part(m, &m->sent))
        message_log_part(r, &m->sent.part);
    if (call_has_part(m, &m->received))
        message_log_part(r + parts - 1, &m->received.part);
    message_log_call(r + parts, m->shape, parts);
    if (m->is_local) {
        r->sequence = m->epoch;
        r->choice = m->choice;
    }
    return r + parts;
}

/* Return the shape of a call on a window or file, or that of its call site if the object or the
 * target is unknown. */
static const struct call_shape *shape_on_object(struct message_call *m, int operation,
                                                const struct message_arguments *a,
                                                const void *address)
{
    const struct message_entry *const e =
        message_shape_find(operation, a->sent.rank, false, a->object, address);

    m->sent.group = e != NULL ? e->side.group : NULL;
    return e != NULL ? e->side.part.shape : message_shape_without_comm(operation, address);
}

/* Complete the begin of a call that has returned. It was begun as the call before (poll.h). */
static void message_set_late(struct message_call *m)
{
    m->status = self.poll->status;
    m->received.posted_after = self.poll->last->posted_after;
}

void message_begin_active(struct message_call *m, int operation, const struct message_arguments *a,
                          const void *address)
{
    const enum message_level level =
        atomic_load_explicit(&message_epoch_level, memory_order_relaxed);

    const bool may_poll = poll_is_possible(operation), is_late = poll_is_late(operation);

    if (!may_poll)
        poll_interrupt();
    function_enter(operation);
    m->outer = self.message;
    m->stamp = ++self.last_stamp;
    m->operation = operation;
    m->address = address;
    self.message = (struct activity){m, m->stamp};
    m->shape = NULL;
    m->open = NULL;
    m->numbered = false;
    m->creates_request = operation >= OP_send_init && operation <= OP_precv_init;
    if (level != MESSAGES_OFF && !atomic_load_explicit(&recorder.stopped, memory_order_relaxed)) {
        message_side_begin(&m->sent, operation, m->is_local ? a->received : a->sent, false, a->comm,
                           address);
        message_side_begin(&m->received, operation, a->received, true, a->comm, address);
        m->shape = m->received.comm != NULL   ? m->received.part.shape
                   : a->comm != MPI_COMM_NULL ? m->sent.part.shape
                   : a->object != 0           ? shape_on_object(m, operation, a, address)
                                              : message_shape_without_comm(operation, address);
        m->numbered = level > MESSAGES_SUMS && m->shape != NULL;
        if (m->numbered) {
            if (m->sent.comm != NULL && !m->creates_request)
                message_side_post(&m->sent, 0, 1);
            if (m->received.comm != NULL && !m->creates_request)
                message_side_post(&m->received, 0, 1);
            if (!record_is_paused() && !self.polls)
                m->open = message_write(m);
        }
    }
    interval_add_samples(interval_shape(m->shape));
    const int64_t now = is_late ? poll_late_ns(self.poll) : now_ns();

    if (is_late)
        message_set_late(m);
    else if (self.polls && !poll_resume(now) && m->numbered && !record_is_paused())
        m->open = message_write(m);
    m->enter_ns = interval_enter(m, now, interval_shape(m->shape));
    function_entered(m->enter_ns);
    if (m->open != NULL && m->enter_ns != now) /* an interval has replaced the open call */
        m->open = message_write(m);
    if (m->open == NULL)
        return;
    for (int i = 1; i <= call_parts(m); i++)
        (m->open - i)->enter_ns = m->enter_ns;
    message_log_open(m->open, call_kind(m), m->enter_ns);
}

/* After a call of a callback, such as one of an attribute, its thread is in the outer call again. That
 * may have been abandoned. */
static void function_restore(const struct message_call *m)
{
    const struct message_call *const outer = m->outer.object;

    if ((const void *)outer <= (const void *)m || !unwind_is_live(outer) ||
        outer->stamp != m->outer.stamp || outer->enter_ns == 0)
        return;
    function_enter(outer->operation);
    function_entered(outer->enter_ns);
}

/* Add the time of a call. Returns its end, or 0 if it is not recorded or has failed. */
int64_t message_finish(struct message_call *m, int error)
{
    if (m->enter_ns == 0)
        return 0;
    const int64_t now = now_ns();

    self.message = m->outer;
    interval_leave(m, now, interval_shape(m->shape));
    spent_add(m->spent, now - m->enter_ns);
    if (m->outer.object != NULL)
        function_restore(m);
    if (m->shape == NULL)
        return 0;
    message_side_leave(&m->sent);
    message_side_leave(&m->received);
    if (error == MPI_SUCCESS)
        return now;
    poll_end(m->enter_ns);
    const bool refused = refusal_is_by_class(error);

    message_side_fail(&m->sent, refused);
    message_side_fail(&m->received, refused);
    if (m->open != NULL)
        message_log_clear(call_parts(m));
    if (!record_is_paused())
        message_log_plain(m->shape, call_kind(m), m->enter_ns, now);
    return 0;
}

/* End a call before the program's error handler runs, because the handler may never return. */
void message_failed(struct message_call *m, int error)
{
    message_finish(m, error);
    m->enter_ns = 0;
}

/* Add a call to the sums of its shape. A call that sends and receives adds the sent bytes to another
 * one. */
static inline void call_add(const struct message_call *m, int64_t elapsed)
{
    const struct message_side *const s = &m->sent, *const r = &m->received;
    const int64_t calls = !m->creates_request;
    const int64_t sent = s->comm != NULL && calls > 0 ? s->part.bytes : 0;

    if (r->comm == NULL) {
        message_shape_add(m->shape, calls, elapsed, sent, 0);
        return;
    }
    message_shape_add(m->shape, calls, elapsed, 0, r->peeked ? 0 : r->part.bytes);
    if (s->comm != NULL)
        message_shape_add(s->part.shape, 0, 0, sent, 0);
}

/* Add a call that has found nothing to the poll of the thread. */
void message_add_poll(const struct message_call *m, const struct message_arguments *a, int64_t now)
{
    const struct poll_call c = {.operation = m->operation,
                                .rank = a != NULL ? a->received.rank : NO_MESSAGE,
                                .object = a == NULL        ? 0
                                          : a->object != 0 ? a->object
                                                           : map_key(a->comm),
                                .address = m->address,
                                .shape = m->shape,
                                .posted_after = m->received.posted_after,
                                .spent = m->spent,
                                .may_spin = true,
                                .enter_ns = m->enter_ns,
                                .exit_ns = now};

    if (!poll_add(&c) && m->open != NULL)
        message_log_clear(call_parts(m));
}

/* Log a call, and add it to the sums. */
static void call_record(struct message_call *m, int64_t now)
{
    struct record *logged = NULL;
    const bool ends_poll = poll_end(m->enter_ns);

    if (!record_is_paused()) {
        if (m->received.comm != NULL) /* the peer may have become known */
            m->shape = m->received.part.shape;
        call_add(m, now - m->enter_ns);
        if (message_is_logged(m->enter_ns, now) || ends_poll) {
            m->sent.part.posted_ns = m->received.part.posted_ns = m->enter_ns;
            logged = message_write(m);
        }
    }
    if (logged != NULL)
        message_log_close(logged, call_parts(m), call_kind(m), m->enter_ns, now);
    else if (m->open != NULL)
        message_log_clear(call_parts(m));
}

/* Return the bytes of a type that is not predefined, or that is a handle of Fortran. */
static int64_t bytes_of_type(const struct message_arguments *a, const struct message_buffer *b)
{
    const struct arguments all = {.large = a->large, .fortran = a->fortran};
    const struct side s = {.count = b->count, .type = b->type};

    return byte_count_of_side(&all, &s);
}

/* Return the bytes of one message of a call that the library has accepted. */
int64_t message_buffer_bytes(const struct message_arguments *a, const struct message_buffer *b)
{
    const int64_t count = a->large ? *(const MPI_Count *)b->count : *(const int *)b->count;
    const int64_t each = a->fortran ? -1 : predefined_bytes(*(const MPI_Datatype *)b->type);
    const int64_t bytes = each >= 0 && count >= 0 ? each * count : bytes_of_type(a, b);

    return a->partitions > 0 && bytes > 0 ? bytes * a->partitions : bytes;
}

/* End a call that has completed its messages. matched: false if a probe found none. */
void message_end(struct message_call *m, int error, const struct message_arguments *a,
                 const void *status, bool matched)
{
    const int64_t now = message_finish(m, error);

    if (now == 0)
        return;
    if (m->sent.comm != NULL) {
        m->sent.part.bytes = message_side_exists(&m->sent) ? message_buffer_bytes(a, &a->send) : 0;
        message_side_complete(&m->sent, NULL);
    }
    if (m->received.comm != NULL && matched)
        message_side_complete(&m->received, status);
    if (matched || record_is_paused()) {
        call_record(m, now);
        return;
    }
    call_add(m, now - m->enter_ns);
    message_add_poll(m, a, now);
}

/* Number a partitioned request. */
static void request_number(struct message_side *s)
{
    if (s->comm != NULL && s->partitioned && s->peer != NULL)
        s->init_number = message_number_init(s->peer, s->part.tag, s->part.received);
}

/* A standard send of fewer bytes is complete when its call returns. */
enum { EAGER_BYTES = 2048 };

/* End a call that has started a message or created a persistent one. */
void message_posted(struct message_call *m, int error, const struct message_arguments *a,
                    MPI_Request request)
{
    const int64_t now = message_finish(m, error);

    if (now == 0)
        return;
    const bool tracked = m->numbered && request != MPI_REQUEST_NULL;

    if (tracked && m->creates_request) {
        request_number(&m->sent);
        request_number(&m->received);
    }

    m->received.part.posted_ns = m->sent.part.posted_ns = m->enter_ns;
    if (message_side_exists(&m->sent)) {
        m->sent.part.bytes = message_buffer_bytes(a, &a->send);
        if (tracked && m->received.comm == NULL &&
            (m->creates_request || m->sent.part.bytes >= EAGER_BYTES ||
             m->sent.group->operation == OP_issend))
            message_request_add(&m->sent, request, m->creates_request);
    }
    if (tracked && message_side_exists(&m->received)) {
        m->received.most_bytes =
            message_buffer_bytes(a, a->recv.type != NULL ? &a->recv : &a->send);
        message_request_add(&m->received, request, m->creates_request);
    }
    call_record(m, now);
}
