/* Messages that a Wait or Test completes.
 *
 * The call adds to the sums of its call site. If it took long, it is logged with the messages of all
 * its requests, whether they are complete or not.
 */
#include <stdlib.h>

#include "base/pmpi.h"
#include "record/completion.h"
#include "record/interval.h"
#include "record/message.h"
#include "record/record.h"

/* The time that recording takes of an open request in a call that completes others. */
enum { REQUEST_COST_NS = 20 };

static int written_parts(const struct message_completion *c)
{
    return c->parts < MOST_PARTS ? c->parts : MOST_PARTS;
}

/* Write a call and its messages behind the used records. Returns the call's record, or NULL. */
static struct record *call_write(const struct message_completion *c)
{
    const int parts = written_parts(c);
    struct record *const r = message_log_records(parts);
    int written = 0;

    for (int i = 0; r != NULL && written < parts; i++)
        if (c->entries[i] != NULL)
            message_log_part(r + written++, &c->entries[i]->side.part);
    if (r != NULL)
        message_log_call(r + parts, c->shape, c->parts);
    return r != NULL ? r + parts : NULL;
}

/* Return true if the call completes collectives, whose records contain its time. */
static bool has_collectives(const struct request_completion *w)
{
    for (int i = 0; w->entries != NULL && i < w->count; i++)
        if (w->entries[i] != NULL)
            return true;
    return false;
}

/* Find the messages of a Wait or Test before the native call, and show the call. */
void message_completion_begin(struct request_completion *w)
{
    struct message_completion *const c = &w->messages;
    const enum message_level level = atomic_load_explicit(&message_level, memory_order_relaxed);

    c->interval_shape = NO_SHAPE;
    if (level == MESSAGES_OFF || atomic_load_explicit(&recorder.stopped, memory_order_relaxed))
        return;
    if (atomic_load_explicit(&message_request_count, memory_order_relaxed) > 0 && w->count > 0 &&
        w->handles != NULL) {
        c->entries = w->count <= FEW_REQUESTS ? w->space->messages
                                              : calloc((size_t)w->count, sizeof *c->entries);
        if (c->entries != NULL) {
            message_request_lock();
            for (int i = 0; i < w->count; i++) {
                c->entries[i] = message_request_take(request_completion_handle(w, i));
                c->parts += c->entries[i] != NULL;
            }
            message_request_unlock();
        }
    }
    const bool recorded = !message_is_paused() && (c->parts > 0 || !has_collectives(w));

    if (!recorded && self.interval == NULL)
        return;
    const struct call_shape *const shape = message_shape_without_comm(w->operation, w->address);

    c->interval_shape = interval_shape(shape);
    c->shape = recorded ? shape : NULL;
    if (level > MESSAGES_SUMS && c->shape != NULL)
        c->open = call_write(c);
}

/* Read the clock before the native call, and log the interval before it. */
void message_completion_enter(struct request_completion *w)
{
    struct message_completion *const c = &w->messages;
    const int64_t now = now_ns();

    w->since = interval_enter(w, now, c->interval_shape);
    if (c->open != NULL && w->since != now) /* an interval has replaced the open call */
        c->open = call_write(c);
    if (c->open != NULL)
        message_log_open(c->open, w->since);
}

static const void *status_at(const struct request_completion *w, int i)
{
    return w->statuses != NULL && i >= 0 ? (const char *)w->statuses + (size_t)i * STATUS_BYTES
                                         : NULL;
}

/* Complete the message of a request. status: index of its status, or -1. */
void message_completion_index(struct request_completion *w, int i, int status)
{
    struct message_completion *const c = &w->messages;

    if (c->entries != NULL && i >= 0 && i < w->count && c->entries[i] != NULL)
        message_request_complete(c->entries[i], status_at(w, status));
}

static bool is_gone(const struct request_completion *w, int i)
{
    return w->messages.entries[i] != NULL && !w->messages.entries[i]->persistent &&
           request_completion_handle(w, i) == MPI_REQUEST_NULL;
}

/* Complete the message of a request to which the library's index points. MPICH 4.0's f08 layer
 * counts indices from 0, so the index may be that of another request. */
void message_completion_indexed(struct request_completion *w, int i, int status)
{
    const struct message_completion *const c = &w->messages;

    if (c->entries != NULL && i >= 0 && i < w->count && c->entries[i] != NULL &&
        (c->entries[i]->persistent || is_gone(w, i)))
        message_request_complete(c->entries[i], status_at(w, status));
}

/* Complete the messages whose requests are null now, if nothing else has completed them. */
void message_completion_null(struct request_completion *w)
{
    for (int i = 0; w->messages.entries != NULL && i < w->count; i++)
        if (is_gone(w, i))
            message_completion_index(w, i, -1);
}

/* Log a call that took long, add it to the sums, and release its requests. */
void message_completion_end(struct request_completion *w, int64_t now)
{
    struct message_completion *const c = &w->messages;

    if (c->shape != NULL) {
        const int64_t elapsed = now - w->since;

        record_totals_add(CONTENT_MESSAGES, c->shape, 1, elapsed, 0, 0);
        if (message_is_logged(elapsed)) {
            struct record *const r = call_write(c);

            if (r != NULL) {
                message_log_close(r, written_parts(c), KIND_message_call, w->since, now);
                c->open = NULL;
            }
        }
    }
    const int found = c->parts, left = message_completion_discard(w);

    if (left > 0 && left < found) /* a program that polls has time */
        message_cost_add((int64_t)left * REQUEST_COST_NS, now);
}

/* End a call without logging it: free the entries of requests that are gone, and put the others
 * back. Returns the number of the others. */
int message_completion_discard(struct request_completion *w)
{
    struct message_completion *const c = &w->messages;
    int left = 0;

    if (c->open != NULL)
        message_log_clear(written_parts(c));
    for (int i = 0; c->entries != NULL && i < w->count; i++) {
        if (is_gone(w, i)) {
            message_request_free(c->entries[i]);
            c->entries[i] = NULL;
        }
        left += c->entries[i] != NULL;
    }
    if (left > 0) {
        message_request_lock();
        for (int i = 0; i < w->count; i++)
            if (c->entries[i] != NULL)
                message_request_put(c->entries[i]);
        message_request_unlock();
    }
    if (c->entries != w->space->messages)
        free(c->entries);
    c->entries = NULL;
    c->shape = NULL;
    return left;
}
