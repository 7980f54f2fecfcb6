/* Completion of recorded requests in Waits and Tests.
 *
 * Without pending requests a Wait costs one additional comparison. The state of a Wait is on its
 * thread's stack.
 */
#include <stdlib.h>

#include "base/pmpi.h"
#include "record/call.h"

static MPI_Request handle_at(const struct request_completion *w, int i)
{
#ifdef MPIPROF_FORTRAN
    if (w->fortran)
        return request_f2c(((const MPI_Fint *)w->handles)[i]);
#endif
    return ((const MPI_Request *)w->handles)[i];
}

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

/* Find the recorded requests of a Wait or Test before the native call. */
void request_completion_begin(struct request_completion *w, int count, const void *handles,
                              bool fortran)
{
    *w = (struct request_completion){.handles = handles, .fortran = fortran};
    w->outside = atomic_load_explicit(&recorder.active, memory_order_relaxed) &&
                 (self.call == NULL || !call_within(w));
    if (!w->outside)
        return;
    unrecorded_mark(SPENT_COMPLETION);
    if (atomic_load_explicit(&recorder.pending, memory_order_relaxed) > 0 && count > 0 &&
        handles != NULL) {
        w->entries = count <= 8 ? w->few : calloc((size_t)count, sizeof *w->entries);
        w->count = w->entries != NULL ? count : 0;
        recorder_lock();
        for (int i = 0; i < w->count; i++)
            w->entries[i] = request_reserve(handle_at(w, i));
        recorder_unlock();
        w->outer = self.completion;
        w->stamp = ++self.last_stamp;
        if (w->count > 0)
            self.completion = (struct activity){w, w->stamp};
    }
    w->since = now_ns();
}

static void completion_record(struct request *r, int64_t since, int64_t now, bool freed)
{
    if (r->active)
        request_record(r, KIND_completion, since, now);
    r->active = false;
    if (freed && !r->persistent)
        request_remove(r);
}

/* Add the time of a Wait or Test, and return its end. */
static int64_t observation_time(struct request_completion *w)
{
    const int64_t now = w->outside ? now_ns() : 0;

    if (w->outside)
        unrecorded_add(SPENT_COMPLETION, now - w->since);
    return now;
}

static void observation_end(struct request_completion *w)
{
    self.completion = w->outer;
    recorder_lock();
    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL)
            w->entries[i]->reserved = false;
    recorder_unlock();
    if (w->entries != w->few)
        free(w->entries);
}

/* Clear the window's mark after a call other than a Wait or Test, without adding time. */
static void observation_discard(struct request_completion *w)
{
    if (w->outside)
        unrecorded_add(SPENT_NOTHING, 0);
    if (w->count > 0)
        observation_end(w);
}

/* An entry stays reserved until it is removed, because another thread may have a request of the
 * same handle. */
static void request_finish(struct request_completion *w, int i, int64_t now)
{
    struct request *const r = w->entries[i];

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

    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL && handle_at(w, i) == MPI_REQUEST_NULL) {
            request_finish(w, i, now);
            gone++;
        }
    return gone;
}

static void persistent_request_finish(struct request_completion *w, int i, int64_t now)
{
    if (i >= 0 && i < w->count && w->entries[i] != NULL && w->entries[i]->persistent)
        request_finish(w, i, now);
}

/* Wait, Waitall, Test, Testall. After an error, requests with a null handle are complete. */
void request_completion_all(struct request_completion *w, int error, bool done)
{
    const int64_t now = observation_time(w);

    for (int i = 0; i < w->count; i++)
        if (error == MPI_SUCCESS ? done : handle_at(w, i) == MPI_REQUEST_NULL)
            request_finish(w, i, now);
    if (w->count > 0)
        observation_end(w);
}

/* Release all entries before an error handler runs, because it may never return. */
void request_completion_failed(struct request_completion *w)
{
    request_completion_all(w, !MPI_SUCCESS, false);
    w->count = 0;
    w->outside = false;
}

/* Waitany, Testany. `base` is 1 in Fortran. */
void request_completion_one(struct request_completion *w, int error, bool done, const int *index,
                            int base)
{
    const int64_t now = observation_time(w);

    if (w->count == 0)
        return;
    const int i = error == MPI_SUCCESS && done && *index != MPI_UNDEFINED ? *index - base : -1;

    if (!null_requests_finish(w, now))
        persistent_request_finish(w, i, now);
    observation_end(w);
}

/* Waitsome, Testsome. */
void request_completion_some(struct request_completion *w, int error, const int *count,
                             const int *indices, int base)
{
    const int64_t now = observation_time(w);

    if (w->count == 0)
        return;
    const int some = error == MPI_SUCCESS && *count != MPI_UNDEFINED ? *count : 0;

    null_requests_finish(w, now);
    for (int i = 0; i < some; i++)
        persistent_request_finish(w, indices[i] - base, now);
    observation_end(w);
}

/* Request_get_status: the operation is complete, but the request remains. */
void request_completion_seen(struct request_completion *w, int error, bool done)
{
    const int64_t now = observation_time(w);

    if (w->count > 0 && w->entries[0] != NULL && error == MPI_SUCCESS && done)
        completion_record(w->entries[0], w->since, now, false);
    if (w->count > 0)
        observation_end(w);
}

/* Start, Startall. Each start is a separate instance, numbered from 1. */
void request_completion_start(struct request_completion *w, int error)
{
    const int64_t now = w->count > 0 ? now_ns() : 0;

    for (int i = 0; i < w->count; i++) {
        struct request *const r = w->entries[i];

        if (r == NULL || !r->persistent || error != MPI_SUCCESS)
            continue;
        r->start++;
        r->active = true;
        if (!atomic_load(&recorder.paused))
            request_record(r, KIND_start, w->since, now);
    }
    observation_discard(w);
}

void request_completion_free(struct request_completion *w, int error)
{
    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL && error == MPI_SUCCESS) {
            request_remove(w->entries[i]);
            w->entries[i] = NULL;
        }
    observation_discard(w);
}
