/* Pending nonblocking and persistent collectives, and pending MPI_Comm_idup.
 *
 * Only requests of recorded operations are stored. An MPI library may return one request for many
 * operations that are already complete, so a handle maps to a list, oldest first. An operation that
 * the program completes with PMPI_Wait stays in the list, up to MOST_PENDING in all. Everything
 * here is under recorder.lock. An entry is used by one Wait at a time, because MPI forbids that two
 * threads complete the same request.
 */
#include <stdlib.h>

#include "base/operation.h"
#include "record/call.h"

/* A program with its own MPI_Wait over PMPI_Wait completes requests unseen, so the lists would grow
 * forever. */
enum { MOST_PENDING = 1 << 20 };

static struct map by_handle; /* handle -> struct request * */

static bool has_room(void)
{
    return atomic_load_explicit(&recorder.pending, memory_order_relaxed) < MOST_PENDING;
}

static void request_put(struct request *r, MPI_Request handle)
{
    r->handle = map_key(handle);
    recorder_lock();
    struct request *const first = map_get(&by_handle, r->handle);

    if (first == NULL)
        map_put(&by_handle, r->handle, r->last = r);
    else
        first->last = first->last->next = r;
    recorder_unlock();
    atomic_fetch_add(&recorder.pending, 1);
}

void request_add(const struct call *c, MPI_Request handle)
{
    if (c->record == NULL || handle == MPI_REQUEST_NULL || !has_room())
        return;
    struct request *const r = calloc(1, sizeof *r);

    if (r == NULL)
        return;
    r->identity = c->comm->identity;
    r->sequence = c->sequence;
    r->shape = c->shape;
    r->persistent = operation_form(c->operation) == 2;
    r->start = c->shape_group->comm->equivalence.number;
    r->active = !r->persistent;
    request_put(r, handle);
}

/* Add the request of an MPI_Comm_idup, whose completion has no record. Without room for it, it counts
 * as pending for good. */
void request_add_creation(MPI_Request handle)
{
    if (!atomic_load(&recorder.active) || handle == MPI_REQUEST_NULL)
        return;
    struct request *const r = has_room() ? calloc(1, sizeof *r) : NULL;

    comm_create_lock_count_pending(1);
    if (r == NULL)
        return;
    r->creates = true;
    request_put(r, handle);
}

void request_remove(struct request *r)
{
    recorder_lock();
    struct request *before = map_get(&by_handle, r->handle);

    if (before == r) {
        if (r->next != NULL)
            r->next->last = r->last;
        map_put(&by_handle, r->handle, r->next);
    } else {
        struct request *const first = before;

        while (before != NULL && before->next != r)
            before = before->next;
        if (before != NULL) {
            before->next = r->next;
            first->last = r->next == NULL ? before : first->last;
        }
    }
    recorder_unlock();
    if (r->creates)
        comm_create_lock_count_pending(-1);
    free(r);
    atomic_fetch_sub(&recorder.pending, 1);
}

/* Return the oldest entry of a handle that this call does not use for another index. */
struct request *request_reserve(MPI_Request handle)
{
    struct request *r = map_get(&by_handle, map_key(handle));

    while (r != NULL && r->reserved)
        r = r->next;
    if (r != NULL)
        r->reserved = true;
    return r;
}
