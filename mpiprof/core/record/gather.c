/* Calls that all members of a communicator, a window or a file make, and that are recorded only:
 * those that make communicators, open files, close an epoch of a window, MPI_Finalize.
 *
 * They are collective, so a rank that comes late keeps the others; but no algorithm of ours can
 * stand in for them, and nothing watches them. The wrappers come here, from any thread; what a
 * call belongs to (comm.c, handles.c) has counted it before, whether it is recorded or not.
 */
#include "record/gather.h"
#include "base/recorder.h"
#include "record/call.h"
#include "record/comm.h"
#include "record/describe.h"
#include "record/outside.h"
#include "record/thread.h"

/* The next call on a communicator, window or file. */
struct turn gathering_of(struct communicator *comm)
{
    struct turn at = {.comm = comm};

    if (comm != NULL) {
        at.sequence = comm->next++;
        comm->history = comm->history << 8 | HISTORY_CREATION;
    }
    return at;
}

/* What makes a communicator, window or file was counted by its parent. */
struct turn gathering_making(const struct creation *c)
{
    return (struct turn){
        .comm = c->counted ? c->parent : NULL, .creation = c, .sequence = c->sequence};
}

void gathering_begin(struct gathering *g, int operation, struct turn at, enum spent what,
                     const void *address)
{
    const bool outermost = self.call == NULL || !call_within(&g->call);

    g->since = 0;
    g->recorded = at.comm != NULL && at.comm->size + at.comm->remote_size > 1 && outermost &&
                  atomic_load_explicit(&recorder.active, memory_order_relaxed);
    if (g->recorded)
        call_begin_counted(&g->call, operation, &at, address);
    else
        g->since = outside_begin(what);
}

void gathering_end(struct gathering *g, int error, enum spent what)
{
    if (!g->recorded) {
        if (what != SPENT_NOTHING)
            outside_end(g->since, what);
        return;
    }
    if (call_end(&g->call, error))
        describe_accepted(&g->call, NULL);
    call_leave(&g->call);
}
