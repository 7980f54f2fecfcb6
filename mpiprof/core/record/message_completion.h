/* Messages that a Wait or Test completes (message_completion.c).
 *
 * The call adds to the sums of its call site. If it took long, it is logged with the messages of all
 * its requests, whether they are complete or not.
 */
#pragma once
#include <stdlib.h>

#include "base/pmpi.h"
#include "record/completion.h"
#include "record/interval.h"
#include "record/message.h"
#include "record/message_request.h"
#include "record/poll.h"
#include "record/record.h"

void message_completion_allocate(struct request_completion *w);
bool message_completion_has_collectives(const struct request_completion *w);
void message_completion_log(struct request_completion *w, int64_t now);
void message_completion_add(const struct call_shape *shape, int64_t since, int64_t now);
void message_completion_indexed(struct request_completion *w, int i, int status);
void message_completion_null(struct request_completion *w, int status);
void message_completion_add_poll(struct request_completion *w, int64_t now);

static inline int message_completion_written_parts(const struct message_completion *c)
{
    return c->parts < MOST_PARTS ? c->parts : MOST_PARTS;
}

/* Write a call and its messages behind the used records. Returns the call's record, or NULL. */
static inline struct record *message_completion_write(const struct message_completion *c)
{
    const int parts = message_completion_written_parts(c);
    struct record *const r = message_log_records(parts);
    int written = 0;

    if (r == NULL)
        return NULL;
    for (int i = 0; written < parts; i++)
        if (c->entries[i] != NULL)
            message_log_part(r + written++, &c->entries[i]->side.part);
    message_log_call(r + parts, c->shape, c->parts);
    return r + parts;
}

/* Take the entries of the messages out of the table. */
static inline void message_completion_take(struct request_completion *w)
{
    struct message_completion *const c = &w->messages;

    if (w->count <= FEW_REQUESTS)
        c->entries = w->space->messages;
    else
        message_completion_allocate(w);
    if (c->entries == NULL)
        return;
    const bool single = message_request_lock();

    for (int i = 0; i < w->count; i++) {
        c->entries[i] = message_request_take(request_completion_handle(w, i));
        c->parts += c->entries[i] != NULL;
    }
    message_request_unlock(single);
}

/* Find the messages of a Wait or Test before the native call, and show the call. */
static inline void message_completion_begin(struct request_completion *w)
{
    struct message_completion *const c = &w->messages;
    const enum message_level level =
        atomic_load_explicit(&message_epoch_level, memory_order_relaxed);

    c->interval_shape = NO_SHAPE;
    if (level == MESSAGES_OFF || atomic_load_explicit(&recorder.stopped, memory_order_relaxed))
        return;
    if (atomic_load_explicit(&message_request_count, memory_order_relaxed) > 0 && w->count > 0 &&
        w->handles != NULL)
        message_completion_take(w);
    const bool recorded = !record_is_paused() && (c->parts > 0 || w->entries == NULL ||
                                                  !message_completion_has_collectives(w));
    const bool may_poll = !record_is_paused() && poll_is_possible(w->operation);

    if (!recorded && !may_poll && self.interval == NULL)
        return;
    const struct call_shape *const shape = message_shape_without_comm(w->operation, w->address);

    c->interval_shape = interval_shape(shape);
    c->shape = recorded ? shape : NULL;
    c->polled = may_poll ? shape : NULL;
    if (level > MESSAGES_SUMS && c->shape != NULL && !self.polls)
        c->open = message_completion_write(c);
}

/* Read the clock before the native call, and log the interval before it. is_late: the call has
 * returned already, after it was begun as the call before (poll.h). */
static inline void message_completion_enter(struct request_completion *w, bool is_late)
{
    struct message_completion *const c = &w->messages;

    interval_add_samples(c->interval_shape);
    const int64_t now = is_late ? poll_late_ns(self.poll) : now_ns();

    if (!is_late && self.polls && !poll_resume(now) && c->shape != NULL)
        c->open = message_completion_write(c);

    w->since = interval_enter(w, now, c->interval_shape);
    function_entered(w->since);
    if (c->open != NULL && w->since != now) /* an interval has replaced the open call */
        c->open = message_completion_write(c);
    if (c->open != NULL)
        message_log_open(c->open, KIND_message_call, w->since);
}

static inline const void *message_completion_status(const struct request_completion *w, int i)
{
    return w->statuses != NULL && i >= 0 ? (const char *)w->statuses + (size_t)i * STATUS_BYTES
                                         : NULL;
}

/* Complete the message of a request. status: index of its status, or -1. */
static inline void message_completion_index(struct request_completion *w, int i, int status)
{
    struct message_completion *const c = &w->messages;

    if (c->entries != NULL && i >= 0 && i < w->count && c->entries[i] != NULL)
        message_request_complete(c->entries[i], message_completion_status(w, status));
}

static inline bool message_completion_is_gone(const struct request_completion *w, int i)
{
    return !w->messages.entries[i]->persistent &&
           request_completion_handle(w, i) == MPI_REQUEST_NULL;
}

/* End a call without logging it: free the entries of requests that are gone, and put the others
 * back. */
static inline void message_completion_discard(struct request_completion *w)
{
    struct message_completion *const c = &w->messages;

    if (c->open != NULL)
        message_log_clear(message_completion_written_parts(c));
    c->shape = NULL;
    if (c->entries == NULL)
        return;
    const bool single = message_request_lock();

    for (int i = 0; i < w->count; i++) {
        struct message_request *const r = c->entries[i];

        if (r == NULL)
            continue;
        if (message_completion_is_gone(w, i)) {
            message_request_lose(r);
            message_request_free(r);
        } else {
            message_request_put(r);
        }
    }
    message_request_unlock(single);
    if (c->entries != w->space->messages)
        free(c->entries);
    c->entries = NULL;
}

/* Log a call, add it to the sums, and release its requests. */
static inline void message_completion_end(struct request_completion *w, int64_t now)
{
    struct message_completion *const c = &w->messages;

    if (w->in_vain && c->polled != NULL) {
        message_completion_add_poll(w, now);
    } else {
        const bool ends_poll = poll_end(w->since);

        if (c->shape != NULL) {
            message_shape_add(c->shape, 1, now - w->since, 0, 0);
            if (message_is_logged(w->since, now) || ends_poll)
                message_completion_log(w, now);
        }
    }
    message_completion_discard(w);
}
