/* Calls of one rank without messages: on windows, files and partitions, and those that create or free
 * communicators.
 *
 * Every call adds its time and bytes to the sums of its shape: operation, window or file, call site
 * and target. It is also logged if it is long, or in a complete stretch of time (message_epochs.h).
 * Calls that begin or end an epoch of a window are always logged, because another rank may wait for
 * them. MPI_Win_post and MPI_Win_start have their group in
 * place of the window, and a number on their window, by which the two sides are matched
 * (account/one_sided_waits.py).
 *
 * Threads: any; the state of a call is on its thread's stack. Arguments are read after the library
 * has accepted them.
 */
#include "record/local_call.h"

#include "base/pmpi.h"
#include "record/call.h"
#include "record/communicator.h"
#include "record/message_epochs.h"
#include "record/message_log.h"
#include "record/message_request.h"
#include "record/message_shape.h"
#include "record/poll.h"

/* Add a call to the sums of its shape, and log it. always: also outside of complete stretches. */
static void call_record(struct message_call *m, int64_t now, int64_t sent, int64_t received,
                        bool always)
{
    const bool logs_some =
        atomic_load_explicit(&message_epoch_level, memory_order_relaxed) > MESSAGES_SUMS;
    const bool ends_poll = poll_end(m->enter_ns);
    struct record *logged = NULL;

    if (!record_is_paused()) {
        message_shape_add(m->shape, 1, now - m->enter_ns, sent, received);
        if (message_is_logged(m->enter_ns, now) || ends_poll || (always && logs_some))
            logged = message_write(m);
    }
    if (logged != NULL)
        message_log_close(logged, 0, KIND_local_call, m->enter_ns, now);
    else if (m->open != NULL)
        message_log_clear(0);
}

static int64_t buffer_bytes(const struct message_arguments *a, const struct message_buffer *b)
{
    const bool has_target = a->sent.rank >= 0 || a->sent.rank == NO_MESSAGE;

    return b->type != NULL && has_target ? message_buffer_bytes(a, b) : 0;
}

/* End a call. a: NULL if it moves no data. */
void local_call_end(struct message_call *m, int error, const struct message_arguments *a)
{
    const int64_t now = message_finish(m, error);

    if (now == 0)
        return;
    const int64_t sent = a != NULL ? buffer_bytes(a, &a->send) : 0;
    const int64_t received = a != NULL ? buffer_bytes(a, &a->recv) : 0;

    call_record(m, now, sent, received, false);
}

/* End MPI_Pready and similar calls. */
void local_call_end_ready(struct message_call *m, int error, MPI_Request request)
{
    const int64_t now = message_finish(m, error);

    if (now == 0)
        return;
    message_request_set_ready(request, m->enter_ns);
    call_record(m, now, 0, 0, false);
}

/* End a call that begins or ends an epoch. */
void local_call_end_epoch(struct message_call *m, int error)
{
    const int64_t now = message_finish(m, error);

    if (now != 0)
        call_record(m, now, 0, 0, true);
}

/* End MPI_Win_test or MPI_Parrived. found: the epoch has ended, or the partition has come. a: NULL
 * without a window. */
void local_call_end_test(struct message_call *m, int error, const struct message_arguments *a,
                         bool found)
{
    const int64_t now = message_finish(m, error);

    if (now == 0)
        return;
    if (found || record_is_paused()) {
        call_record(m, now, 0, 0, found);
        return;
    }
    message_shape_add(m->shape, 1, now - m->enter_ns, 0, 0);
    message_add_poll(m, a, now);
}

/* Replace the window by the group in the shape of a call. */
static void shape_set_group(struct message_call *m, const struct communicator *window,
                            MPI_Group group)
{
    const struct communicator *const members = window_file_comm_group(window, group);
    const struct shape_group *const f =
        members != NULL ? call_shapes_find(m->sent.group->operation, members, m->sent.group->site)
                        : NULL;

    if (f != NULL)
        m->shape = &f->base;
}

/* Return true unless a group is empty. Open MPI accepts a null handle. */
static bool group_has_members(MPI_Group group)
{
    int members = 0;

    return group != MPI_GROUP_NULL && pmpi.Group_size(group, &members) == MPI_SUCCESS &&
           members > 0;
}

/* End MPI_Win_post or MPI_Win_start. window: map_key of its handle. */
void local_call_end_group(struct message_call *m, int error, uint64_t window, MPI_Group group)
{
    const int64_t now = message_finish(m, error);

    if (now == 0)
        return;
    struct communicator *const entry = map_get(&window_file_comm_windows, window);

    if (entry != NULL && m->sent.group != NULL && group_has_members(group)) {
        atomic_uint *const count =
            m->sent.group->operation == OP_win_post ? &entry->epochs.posts : &entry->epochs.starts;

        m->epoch = atomic_fetch_add_explicit(count, 1, memory_order_relaxed) + 1;
        if (!record_is_paused())
            shape_set_group(m, entry, group);
    }
    call_record(m, now, 0, 0, true);
}
