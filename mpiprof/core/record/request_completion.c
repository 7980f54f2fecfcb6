/* Completion of recorded requests in Waits and Tests.
 *
 * Without pending requests a Wait costs one additional comparison. The state of a Wait is on its
 * thread's stack.
 */
#include <stdlib.h>

#include "base/pmpi.h"
#include "record/call.h"
#include "record/completion.h"
#include "record/interval.h"
#include "record/message.h"
#include "record/message_completion.h"
#include "record/poll.h"
#include "record/record.h"

/* Record a start or completion, if the operation is sampled. */
static void request_record(const struct request *r, enum kind kind, int64_t enter_ns,
                           int64_t exit_ns)
{
    if (record_is_summed() ||
        !record_is_sampled(r->identity, r->sequence, r->persistent ? r->start : 0))
        return;
    struct record *const made = record_new(r->start > 0 ? 1 : 0);

    if (made == NULL)
        return;
    if (r->start > 0)
        record_write_extension(made - 1, EXT_START, r->start);
    made->sequence = r->sequence;
    made->shape = r->shape;
    made->enter_ns = enter_ns;
    made->exit_ns = exit_ns;
    record_publish(made, kind);
}

static bool has_requests(const struct request_completion *w)
{
    return w->entries != NULL || w->messages.entries != NULL;
}

static struct message_request *message_at(const struct request_completion *w, int i)
{
    return w->messages.entries != NULL ? w->messages.entries[i] : NULL;
}

/* Find the pending collectives among the requests. */
static void collectives_find(struct request_completion *w)
{
    w->entries = w->count <= FEW_REQUESTS ? w->space->collectives
                                          : calloc((size_t)w->count, sizeof *w->entries);
    recorder_lock();
    for (int i = 0; w->entries != NULL && i < w->count; i++)
        w->entries[i] = request_reserve(request_completion_handle(w, i));
    recorder_unlock();
}

/* Find the recorded requests of a Wait or Test before the native call. */
void request_completion_begin_active(struct request_completion *w)
{
    const bool is_late = poll_is_late(w->operation);
    const void *const handles = w->handles;
    const bool fortran = w->fortran;

    if (!poll_is_possible(w->operation))
        poll_interrupt();
    function_enter(w->operation);
    if (is_late) { /* before the call, the handles were these */
        w->handles = self.poll->handles;
        w->fortran = false;
        w->space->status = self.poll->status;
    }
    if (atomic_load_explicit(&recorder.pending, memory_order_relaxed) > 0 && w->count > 0 &&
        w->handles != NULL)
        collectives_find(w);
    message_completion_begin(w);
    w->handles = handles;
    w->fortran = fortran;
    w->outer = self.completion;
    if (has_requests(w)) {
        w->stamp = ++self.last_stamp;
        self.completion = (struct activity){w, w->stamp};
    }
    message_completion_enter(w, is_late);
}

static void completion_record(struct request *r, int64_t since, int64_t now, bool freed)
{
    if (r->active)
        request_record(r, KIND_completion, since, now);
    r->active = false;
    if (freed && !r->persistent)
        request_remove(r);
}

/* Add the time of a call on requests, and return its end. */
static int64_t observation_time(struct request_completion *w)
{
    const int64_t now = w->outside ? now_ns() : 0;

    if (w->outside) {
        spent_add(SPENT_COMPLETION, now - w->since);
        interval_leave(w, now, w->messages.interval_shape);
    }
    return now;
}

static void entries_release(struct request_completion *w)
{
    if (w->entries == NULL)
        return;
    recorder_lock();
    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL)
            w->entries[i]->reserved = false;
    recorder_unlock();
    if (w->entries != w->space->collectives)
        free(w->entries);
    w->entries = NULL;
}

static void observation_end(struct request_completion *w, int64_t now)
{
    if (!w->outside)
        return;
    if (has_requests(w))
        self.completion = w->outer;
    entries_release(w);
    message_completion_end(w, now);
}

/* End a call that starts, cancels or frees requests. It is logged without messages. */
static void observation_discard(struct request_completion *w, int64_t now)
{
    const struct call_shape *const shape = w->messages.shape;

    if (!w->outside)
        return;
    if (has_requests(w))
        self.completion = w->outer;
    entries_release(w);
    message_completion_discard(w);
    if (shape != NULL)
        message_completion_add(shape, w->since, now);
}

/* An entry stays reserved until it is removed, because another thread may have a request of the
 * same handle. */
static void request_finish(struct request_completion *w, int i, int64_t now)
{
    struct request *const r = w->entries != NULL ? w->entries[i] : NULL;

    if (r == NULL)
        return;
    w->entries[i] = NULL;
    if (r->persistent)
        r->reserved = false;
    completion_record(r, w->since, now, true);
}

/* Complete the requests with a null handle, and return their number. MPICH 4.0's f08 layer counts
 * indices from 0, so indices are used only for persistent operations, which keep their handle. */
static int null_requests_finish(struct request_completion *w, int64_t now)
{
    int gone = 0;

    for (int i = 0; w->entries != NULL && i < w->count; i++)
        if (w->entries[i] != NULL && request_completion_handle(w, i) == MPI_REQUEST_NULL) {
            request_finish(w, i, now);
            gone++;
        }
    return gone;
}

static void persistent_request_finish(struct request_completion *w, int i, int64_t now)
{
    if (w->entries != NULL && i >= 0 && i < w->count && w->entries[i] != NULL &&
        w->entries[i]->persistent)
        request_finish(w, i, now);
}

/* Wait, Waitall, Test, Testall. After an error, requests with a null handle are complete. */
void request_completion_all(struct request_completion *w, int error, bool done)
{
    const int64_t now = observation_time(w);

    w->in_vain = error == MPI_SUCCESS && !done;
    for (int i = 0; has_requests(w) && (done || error != MPI_SUCCESS) && i < w->count; i++)
        if (error == MPI_SUCCESS || request_completion_handle(w, i) == MPI_REQUEST_NULL) {
            if (w->entries != NULL)
                request_finish(w, i, now);
            message_completion_index(w, i, error == MPI_SUCCESS ? i : -1);
        }
    observation_end(w, now);
}

/* Release all entries before an error handler runs, because it may never return. */
void request_completion_failed(struct request_completion *w)
{
    request_completion_all(w, !MPI_SUCCESS, false);
    w->outside = false;
}

/* Waitany, Testany. `base` is 1 in Fortran. */
void request_completion_one(struct request_completion *w, int error, bool done, const int *index,
                            int base)
{
    const int64_t now = observation_time(w);

    w->in_vain = error == MPI_SUCCESS && !done;
    if (!has_requests(w)) {
        observation_end(w, now);
        return;
    }
    const int i = error == MPI_SUCCESS && done && *index != MPI_UNDEFINED ? *index - base : -1;

    if (!null_requests_finish(w, now))
        persistent_request_finish(w, i, now);
    message_completion_indexed(w, i, 0);
    message_completion_null(w, error == MPI_SUCCESS ? 0 : -1);
    observation_end(w, now);
}

/* Waitsome, Testsome. */
void request_completion_some(struct request_completion *w, int error, const int *count,
                             const int *indices, int base)
{
    const int64_t now = observation_time(w);

    w->in_vain = w->operation == OP_testsome && error == MPI_SUCCESS && *count == 0;
    if (!has_requests(w)) {
        observation_end(w, now);
        return;
    }
    const int some = error == MPI_SUCCESS && *count != MPI_UNDEFINED ? *count : 0;

    null_requests_finish(w, now);
    for (int i = 0; i < some; i++) {
        persistent_request_finish(w, indices[i] - base, now);
        message_completion_indexed(w, indices[i] - base, i);
    }
    message_completion_null(w, -1);
    observation_end(w, now);
}

/* Request_get_status and its forms for several requests: `many` operations are complete, but their
 * requests remain. indices: of these requests, NULL if they are the first ones. */
void request_completion_seen(struct request_completion *w, int error, bool done, int many,
                             const int *indices, int base)
{
    const int64_t now = observation_time(w);

    w->in_vain = error == MPI_SUCCESS && !done;
    for (int k = 0; has_requests(w) && error == MPI_SUCCESS && done && k < many; k++) {
        const int i = indices != NULL ? indices[k] - base : k;

        if (i < 0 || i >= w->count) /* MPI_UNDEFINED */
            continue;
        if (w->entries != NULL && w->entries[i] != NULL)
            completion_record(w->entries[i], w->since, now, false);
        message_completion_index(w, i, k);
    }
    observation_end(w, now);
}

/* Start, Startall. Each start is a separate instance, numbered from 1. */
void request_completion_start(struct request_completion *w, int error)
{
    const int64_t now = observation_time(w);

    record_check();
    for (int i = 0; error == MPI_SUCCESS && has_requests(w) && i < w->count; i++) {
        struct request *const r = w->entries != NULL ? w->entries[i] : NULL;
        struct message_request *const m = message_at(w, i);

        if (m != NULL && m->persistent)
            message_request_start(m, w->since);
        if (r == NULL || !r->persistent)
            continue;
        r->start++;
        r->active = true;
        if (!atomic_load(&recorder.paused))
            request_record(r, KIND_start, w->since, now);
    }
    observation_discard(w, now);
}

/* MPI_Cancel: whether the message is cancelled shows only at its completion. A cancelled send has
 * used a number that its receiver does not count. So the call is logged with its message, and
 * readers distrust the numbers of later sends (account/message_tables.py). */
void request_completion_cancel(struct request_completion *w, int error)
{
    const int64_t now = observation_time(w);
    struct message_request *const m = message_at(w, 0);

    record_check();
    if (m != NULL && error == MPI_SUCCESS)
        m->side.part.flags |= PART_CANCELLED;
    if (w->messages.open != NULL && error == MPI_SUCCESS) {
        message_shape_add(w->messages.shape, 1, now - w->since, 0, 0);
        message_completion_log(w, now);
        w->messages.shape = NULL;
    }
    observation_discard(w, now);
}

void request_completion_free(struct request_completion *w, int error)
{
    const int64_t now = observation_time(w);
    struct request *const r = w->entries != NULL ? w->entries[0] : NULL;

    if (r != NULL && error == MPI_SUCCESS) {
        request_remove(r);
        w->entries[0] = NULL;
    }
    if (message_at(w, 0) != NULL && error == MPI_SUCCESS)
        message_at(w, 0)->persistent = false; /* so that it is released, as its handle is null */
    observation_discard(w, now);
}
