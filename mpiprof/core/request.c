/* Nonblocking and persistent collectives on their way: from the call to the Wait that completes it.
 *
 * Requests of recorded operations only; while there are none, a Wait costs one comparison more.
 * An MPI library may hand out one request for many operations that are complete already, so a
 * handle leads to a list, oldest first. Everything here is under recorder.lock; entries are given
 * to one Wait at a time (MPI lets no two threads complete the same request).
 */
#include <stdlib.h>

#include "recorder.h"

static struct map by_handle; /* handle -> struct request * */

static uint64_t key_of(MPI_Request request)
{
    return (uint64_t)(uintptr_t)request;
}

static MPI_Request handle_at(const struct watch *w, int i)
{
#ifdef MPIPROF_FORTRAN
    if (w->fortran)
        return request_f2c(((const MPI_Fint *)w->handles)[i]);
#endif
    return ((const MPI_Request *)w->handles)[i];
}

void request_add(const struct call *c, MPI_Request handle)
{
    if (c->record == NULL || handle == MPI_REQUEST_NULL)
        return;
    struct request *const r = calloc(1, sizeof *r);

    if (r == NULL)
        return;
    r->handle = key_of(handle);
    r->identity = c->comm->identity;
    r->sequence = c->sequence;
    r->shape = c->shape;
    r->persistent = operation_form(c->operation) == 2;
    r->starts = c->kin;
    r->active = !r->persistent;
    recorder_lock();
    struct request *last = map_get(&by_handle, r->handle);

    if (last == NULL) {
        map_put(&by_handle, r->handle, r);
    } else {
        while (last->next != NULL)
            last = last->next;
        last->next = r;
    }
    recorder_unlock();
    atomic_fetch_add(&recorder.pending, 1);
}

static void request_remove(struct request *r)
{
    recorder_lock();
    struct request *before = map_get(&by_handle, r->handle);

    if (before == r) {
        map_put(&by_handle, r->handle, r->next);
    } else {
        while (before != NULL && before->next != r)
            before = before->next;
        if (before != NULL)
            before->next = r->next;
    }
    recorder_unlock();
    free(r);
    atomic_fetch_sub(&recorder.pending, 1);
}

/* The oldest entry of a handle that no other place of this call has. */
static struct request *request_take(MPI_Request handle)
{
    struct request *r = map_get(&by_handle, key_of(handle));

    while (r != NULL && r->held)
        r = r->next;
    if (r != NULL)
        r->held = true;
    return r;
}

/* Before a Wait or Test: which of its requests are ours. */
void watch_begin(struct watch *w, int count, const void *handles, bool fortran)
{
    *w = (struct watch){.handles = handles, .fortran = fortran};
    w->outside = atomic_load_explicit(&recorder.active, memory_order_relaxed) &&
                 (self.call == NULL || !call_within(w));
    if (!w->outside)
        return;
    if (atomic_load_explicit(&recorder.pending, memory_order_relaxed) > 0 && count > 0 &&
        handles != NULL) {
        w->entries = count <= 8 ? w->few : calloc((size_t)count, sizeof *w->entries);
        w->count = w->entries != NULL ? count : 0;
        recorder_lock();
        for (int i = 0; i < w->count; i++)
            w->entries[i] = request_take(handle_at(w, i));
        recorder_unlock();
        w->outer = self.watch;
        if (w->count > 0)
            self.watch = w;
    }
    w->since = now_ns();
}

static void complete(struct request *r, int64_t since, int64_t now, bool freed)
{
    if (r->active)
        record_completion(r, since, now);
    r->active = false;
    if (freed && !r->persistent)
        request_remove(r);
}

static int64_t watch_time(struct watch *w)
{
    const int64_t now = w->outside ? now_ns() : 0;

    if (w->outside)
        spent_add(SPENT_COMPLETION, now - w->since);
    return now;
}

static void watch_end(struct watch *w)
{
    self.watch = w->outer;
    recorder_lock();
    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL)
            w->entries[i]->held = false;
    recorder_unlock();
    if (w->entries != w->few)
        free(w->entries);
}

/* An entry stays held until it is gone, as another thread may have a request of the same handle. */
static void finish(struct watch *w, int i, int64_t now)
{
    struct request *const r = w->entries[i];

    if (r == NULL)
        return;
    w->entries[i] = NULL;
    if (r->persistent)
        r->held = false;
    complete(r, w->since, now, true);
}

/* Those whose handle is gone are complete; how many. MPICH 4.0's f08 layer counts indices from 0,
 * so they are asked only where a handle stays: for persistent operations. */
static int finish_gone(struct watch *w, int64_t now)
{
    int gone = 0;

    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL && handle_at(w, i) == MPI_REQUEST_NULL) {
            finish(w, i, now);
            gone++;
        }
    return gone;
}

static void finish_persistent(struct watch *w, int i, int64_t now)
{
    if (i >= 0 && i < w->count && w->entries[i] != NULL && w->entries[i]->persistent)
        finish(w, i, now);
}

/* Wait, Waitall, Test, Testall. After an error: those whose handle is gone. */
void watch_all(struct watch *w, int error, bool done)
{
    const int64_t now = watch_time(w);

    for (int i = 0; i < w->count; i++)
        if (error == MPI_SUCCESS ? done : handle_at(w, i) == MPI_REQUEST_NULL)
            finish(w, i, now);
    if (w->count > 0)
        watch_end(w);
}

/* An error handler will be asked, which may never return: no entry may stay held. */
void watch_failed(struct watch *w)
{
    watch_all(w, !MPI_SUCCESS, false);
    w->count = 0;
    w->outside = false;
}

/* Waitany, Testany: `base` is 1 in Fortran. */
void watch_one(struct watch *w, int error, bool done, const int *index, int base)
{
    const int64_t now = watch_time(w);

    if (w->count == 0)
        return;
    const int i = error == MPI_SUCCESS && done && *index != MPI_UNDEFINED ? *index - base : -1;

    if (!finish_gone(w, now))
        finish_persistent(w, i, now);
    watch_end(w);
}

/* Waitsome, Testsome. */
void watch_some(struct watch *w, int error, const int *count, const int *indices, int base)
{
    const int64_t now = watch_time(w);

    if (w->count == 0)
        return;
    const int some = error == MPI_SUCCESS && *count != MPI_UNDEFINED ? *count : 0;

    finish_gone(w, now);
    for (int i = 0; i < some; i++)
        finish_persistent(w, indices[i] - base, now);
    watch_end(w);
}

/* Request_get_status: complete, but the request is still there. */
void watch_seen(struct watch *w, int error, bool done)
{
    const int64_t now = watch_time(w);

    if (w->count > 0 && w->entries[0] != NULL && error == MPI_SUCCESS && done)
        complete(w->entries[0], w->since, now, false);
    if (w->count > 0)
        watch_end(w);
}

/* Start, Startall: a start is an instance of its own, numbered from 1. */
void watch_start(struct watch *w, int error)
{
    const int64_t now = w->count > 0 ? now_ns() : 0;

    for (int i = 0; i < w->count; i++) {
        struct request *const r = w->entries[i];

        if (r == NULL || !r->persistent || error != MPI_SUCCESS)
            continue;
        r->starts++;
        r->active = true;
        record_start(r, w->since, now);
    }
    if (w->count > 0)
        watch_end(w);
}

void watch_free(struct watch *w, int error)
{
    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL && error == MPI_SUCCESS) {
            request_remove(w->entries[i]);
            w->entries[i] = NULL;
        }
    if (w->count > 0)
        watch_end(w);
}
