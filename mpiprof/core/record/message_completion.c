/* Messages that a Wait or Test completes: what few calls need. message_completion.h has the rest. */
#include "record/message_completion.h"

#include <stdlib.h>

#include "record/completion.h"
#include "record/message.h"
#include "record/message_log.h"
#include "record/message_request.h"
#include "record/poll.h"

/* Allocate the entries of a call with many requests. */
void message_completion_allocate(struct request_completion *w)
{
    w->messages.entries = calloc((size_t)w->count, sizeof *w->messages.entries);
}

/* Return true if the call completes collectives, whose records contain its time. The completion of
 * an MPI_Comm_idup has no record. */
bool message_completion_has_collectives(const struct request_completion *w)
{
    for (int i = 0; i < w->count; i++)
        if (w->entries[i] != NULL && !w->entries[i]->creates)
            return true;
    return false;
}

/* Log a call with its messages. */
void message_completion_log(struct request_completion *w, int64_t now)
{
    struct message_completion *const c = &w->messages;
    struct record *const r = message_completion_write(c);

    if (r == NULL)
        return;
    message_log_close(r, message_completion_written_parts(c), KIND_message_call, w->since, now);
    c->open = NULL;
}

/* Add a call that completes no message to the sums of its call site, and log it. */
void message_completion_add(const struct call_shape *shape, int64_t since, int64_t now)
{
    message_shape_add(shape, 1, now - since, 0, 0);
    message_log_plain(shape, KIND_message_call, since, now);
}

static bool is_gone(const struct request_completion *w, int i)
{
    return w->messages.entries[i] != NULL && message_completion_is_gone(w, i);
}

/* Complete the message of a request to which the library's index points. MPICH 4.0's f08 layer
 * counts indices from 0, so the index may be that of another request, as may be the status. */
void message_completion_indexed(struct request_completion *w, int i, int status)
{
    const struct message_completion *const c = &w->messages;
#ifdef MPIPROF_ABI_mpich
    const int certain = w->fortran ? -1 : status;
#else
    const int certain = status;
#endif

    if (c->entries != NULL && i >= 0 && i < w->count && c->entries[i] != NULL &&
        (c->entries[i]->persistent || (certain >= 0 && is_gone(w, i))))
        message_request_complete(c->entries[i], message_completion_status(w, certain));
}

/* Complete the messages whose requests are null now, if nothing else has completed them. status:
 * index of the status if the call completes one request, or -1. */
void message_completion_null(struct request_completion *w, int status)
{
    for (int i = 0; w->messages.entries != NULL && i < w->count; i++)
        if (is_gone(w, i))
            message_completion_index(w, i, status);
}

/* Add a Test that has found nothing to the sums, and to the poll of the thread. */
void message_completion_add_poll(struct request_completion *w, int64_t now)
{
    struct message_completion *const c = &w->messages;
    const struct poll_call call = {.operation = w->operation,
                                   .rank = NO_MESSAGE,
                                   .address = w->address,
                                   .shape = c->polled,
                                   .spent = SPENT_COMPLETION,
                                   .may_spin = w->count <= FEW_REQUESTS,
                                   .enter_ns = w->since,
                                   .exit_ns = now};

    message_shape_add(c->polled, 1, now - w->since, 0, 0);
    if (poll_add(&call))
        c->open = NULL; /* the record of the poll is in its place */
}
