/* Agreement on the size of a broadcast.
 *
 * The number of messages that a rank sends and expects follows from its size argument. In an
 * erroneous program this may differ from the root's. Then ranks would wait for blocks that nobody
 * sends, or take a part for the whole. So the root's size applies. If the root sends several
 * blocks, or more than every scratch region holds (scratch.c), a size message precedes the data. It
 * follows the tree with which the algorithm opens (schedule.h). A smaller broadcast has no size
 * message:
 *
 *                         root sends a size message    root sends data only
 *    rank expects size    takes the size               finds the data: it is one block
 *    rank expects data    finds the size, takes it     receives the data; its length is the size
 *
 * Both messages come from the same rank, with different tags. So all members send and expect the
 * messages for the root's size. A rank with a smaller size receives as much as fits and reports an
 * error. A rank with a larger size receives what the root sent. MPICH reports this as an error,
 * Open MPI does not.
 *
 * Threads: all state belongs to the calling thread.
 */
#include <sched.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "executor/execution.h"
#include "executor/private_comm.h"

enum { PATIENCE = 256 }; /* tests between two probes for the other type of message */

struct size_message {
    int64_t bytes, block_size;
};

/* Wait for a message. Returns false if its sender has sent the other type, with the other tag. */
static bool message_wait(const struct execution *e, MPI_Request *request, int other_tag, int *error,
                         MPI_Status *status)
{
    for (int done = 0, there = 0;; sched_yield()) {
        for (int i = 0; i < PATIENCE; i++) {
            *error = pmpi.Test(request, &done, status);
            if (done || *error != MPI_SUCCESS)
                return true;
        }
        *error = pmpi.Iprobe(e->size.parent, other_tag, e->route.comm, &there, MPI_STATUS_IGNORE);
        if (!there && *error == MPI_SUCCESS)
            continue;
        pmpi.Cancel(request);
        pmpi.Wait(request, MPI_STATUS_IGNORE);
        return *error != MPI_SUCCESS;
    }
}

/* Wait for data that a size message may replace. */
int bcast_size_agreement_wait(struct execution *e, MPI_Request *request, MPI_Status *status)
{
    int error;

    e->size.size_arrived = !message_wait(e, request, e->route.tag + BCAST_TAGS, &error, status);
    e->size.expects_size = false;
    return error;
}

/* Receive the size message. Returns false if data has arrived instead. */
static bool size_receive(struct execution *e, struct size_message *w)
{
    MPI_Request request;
    MPI_Status status;
    int error = pmpi.Irecv(w, sizeof *w, MPI_BYTE, e->size.parent, e->route.tag + BCAST_TAGS,
                           e->route.comm, &request);
    const bool comes =
        error != MPI_SUCCESS || message_wait(e, &request, e->route.tag, &error, &status);

    execution_note_error(e, error);
    return comes;
}

/* Receive the root's size and forward it in the tree. Returns false if data has arrived instead. */
static bool size_forward(struct execution *e, struct size_message *w)
{
    struct problem whole = e->problem;
    struct context c;
    struct round round = {0};
    bool comes = true;

    whole.bytes = whole.block_size = 1;
    if (!schedule_prepare(e->algorithm, &c, &whole, e->call->comm->rank)) {
        execution_note_error(e, MPI_ERR_NO_MEM);
        return true;
    }
    for (int64_t r = 0, rounds = e->algorithm->opening(&c); comes && r < rounds; r++) {
        schedule_round(e->algorithm, &c, r, &round);
        for (int i = 0; comes && i < round.count; i++) {
            const int peer = round.steps[i].peer;

            if (round.steps[i].kind == STEP_RECEIVE) {
                e->size.parent = peer;
                comes = size_receive(e, w);
            } else {
                execution_note_error(e, pmpi.Send(w, sizeof *w, MPI_BYTE, peer,
                                                  e->route.tag + BCAST_TAGS, e->route.comm));
            }
        }
    }
    if (round.failed)
        execution_note_error(e, MPI_ERR_NO_MEM);
    memory_free(round.steps);
    schedule_free(&c);
    return comes;
}

static void size_apply(struct execution *e, const struct size_message *w)
{
    e->size.size_known = true;
    e->route.tag += BCAST_TAGS;
    e->problem.bytes = w->bytes;
    e->problem.block_size = w->block_size;
    if (w->bytes > e->size.given)
        execution_note_error(e, MPI_ERR_TRUNCATE);
    else
        e->size.received = w->bytes;
}

/* Agree on the size before a broadcast. */
void bcast_size_agreement_begin(struct execution *e)
{
    struct size_message w = {e->problem.bytes, e->problem.block_size};
    int64_t (*const blocks)(const struct problem *) = e->algorithm->blocks;

    e->size.given = e->size.received = w.bytes;
    e->size.parent = -1;
    if (w.bytes <= SCRATCH_SURE && (blocks == NULL || blocks(&e->problem) <= 1)) {
        e->size.expects_size = e->call->root != e->call->comm->rank;
    } else if (size_forward(e, &w)) {
        size_apply(e, &w);
    } else {
        e->problem.block_size = INT64_MAX;
        if (w.bytes > SCRATCH_SURE)
            e->problem.bytes = e->size.received = SCRATCH_SURE;
    }
}

/* Return true if the call must start again, because a size message arrived instead of data. */
bool bcast_size_agreement_restarts(struct execution *e)
{
    struct size_message w = {e->problem.bytes, e->problem.block_size};

    if (!e->size.size_arrived)
        return false;
    e->size.size_arrived = false;
    schedule_free(&e->context);
    size_forward(e, &w);
    size_apply(e, &w);
    return true;
}

/* Return true if the message is short because the root has no more data to forward. */
bool bcast_size_agreement_is_short(struct execution *e, int64_t expected, int64_t bytes)
{
    if (e->algorithm->opening == NULL || e->size.size_known || bytes == 0 ||
        expected != e->size.received)
        return false;
    e->size.received = bytes;
    return true;
}

/* Return the length of a message that this rank has. */
int64_t bcast_size_agreement_length(const struct execution *e, int64_t offset, int64_t length)
{
    const int64_t left = e->size.received > offset ? e->size.received - offset : 0;

    return e->algorithm->opening == NULL || length < left ? length : left;
}

/* Complete a broadcast before unpacking. */
void bcast_size_agreement_end(struct execution *e)
{
    if (e->size.received == e->size.given)
        return;
    pack_buffer_note_missing(e, e->staging.buffers[BUFFER_OUT] + e->size.received);
#ifndef MPIPROF_ABI_openmpi
    execution_note_error(e, MPI_ERR_OTHER);
#endif
}
