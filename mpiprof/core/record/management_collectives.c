/* Collective calls that are recorded only: those that create communicators, open files or close an
 * epoch of a window, and MPI_Finalize.
 *
 * A late rank delays the other ranks in them, but mpiprof has no algorithm for them and collects no
 * statistics. The wrappers enter this file from any thread. comm.c and window_file_comm.c
 * have counted the call before, whether it is recorded or not. A call on a communicator of one rank,
 * or on one that is unknown, is recorded by call site only.
 */
#include "record/management_collectives.h"

/* Return the next sequence number on a communicator, window or file. */
struct call_order management_collective_order(struct communicator *comm)
{
    struct call_order at = {.comm = comm};

    if (comm != NULL) {
        at.sequence = comm->next++;
        comm->history = comm->history << 8 | HISTORY_CREATION;
    }
    return at;
}

/* The parent counted the call that creates a communicator, window or file. */
struct call_order management_collective_creation_order(const struct creation *c)
{
    return (struct call_order){
        .comm = c->counted ? c->parent : NULL, .creation = c, .sequence = c->sequence};
}

void management_collective_begin(struct management_collective *g, int operation,
                                 struct call_order at, enum spent what, const void *address)
{
    const bool outermost = self.call == NULL || !call_within(&g->call);

    g->recorded = at.comm != NULL && at.comm->size + at.comm->remote_size > 1 && outermost &&
                  atomic_load_explicit(&recorder.active, memory_order_relaxed);
    if (g->recorded)
        call_begin_counted(&g->call, operation, &at, address);
    else
        local_call_begin_alone(&g->local, operation, what, address);
}

void management_collective_end(struct management_collective *g, int error)
{
    if (!g->recorded) {
        local_call_end(&g->local, error, NULL);
        return;
    }
    if (call_end(&g->call, error))
        call_arguments_accepted(&g->call, NULL);
    call_leave(&g->call);
}
