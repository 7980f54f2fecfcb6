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
#include "base/symbol_lookup.h"
#include "executor/buffers.h"
#include "executor/execution.h"
#include "executor/private_comm.h"
#include "record/communicator.h"
#include "schedule/schedule.h"

enum { PATIENCE = 256 }; /* tests between two probes for the other type of message */

struct word {
    int64_t bytes, block_size;
};

static bool has_word(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    int64_t (*const blocks)(const struct problem *) = e->algorithm->blocks;

    return p->bytes > SCRATCH_SURE || (blocks != NULL && blocks(p) > 1);
}

/* Wait for a message. Returns false if its sender has sent the other type, with the other tag. */
static bool arrives(const struct execution *e, MPI_Request *request, int other_tag, int *error,
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

    e->size.heard = !arrives(e, request, e->route.tag + LEAD_TAGS, &error, status);
    e->size.listens = false;
    return error;
}

/* Receive the size message. Returns false if data has arrived instead. */
static bool word_comes(struct execution *e, struct word *w)
{
    MPI_Request request;
    MPI_Status status;
    int error = pmpi.Irecv(w, sizeof *w, MPI_BYTE, e->size.parent, e->route.tag + LEAD_TAGS,
                           e->route.comm, &request);
    const bool comes = error != MPI_SUCCESS || arrives(e, &request, e->route.tag, &error, &status);

    execution_note(e, error);
    return comes;
}

/* Receive the root's size and forward it along the tree. Returns false if data has arrived in its
 * place. */
static bool word_spreads(struct execution *e, struct word *w)
{
    struct problem whole = e->problem;
    struct context c;
    struct round round = {0};
    bool comes = true;

    whole.bytes = whole.block_size = 1;
    if (!schedule_prepare(e->algorithm, &c, &whole, e->call->comm->rank)) {
        execution_note(e, MPI_ERR_NO_MEM);
        return true;
    }
    for (int64_t r = 0, rounds = e->algorithm->opening(&c); comes && r < rounds; r++) {
        schedule_round(e->algorithm, &c, r, &round);
        for (int i = 0; comes && i < round.count; i++) {
            const int peer = round.steps[i].peer;

            if (round.steps[i].kind == STEP_RECEIVE) {
                e->size.parent = peer;
                comes = word_comes(e, w);
            } else {
                execution_note(e, pmpi.Send(w, sizeof *w, MPI_BYTE, peer, e->route.tag + LEAD_TAGS,
                                            e->route.comm));
            }
        }
    }
    if (round.failed)
        execution_note(e, MPI_ERR_NO_MEM);
    memory_free(round.steps);
    schedule_free(&c);
    return comes;
}

static void word_take(struct execution *e, const struct word *w)
{
    e->size.told = true;
    e->route.tag += LEAD_TAGS;
    e->problem.bytes = w->bytes;
    e->problem.block_size = w->block_size;
    if (w->bytes > e->size.given)
        execution_note(e, MPI_ERR_TRUNCATE);
    else
        e->size.room = w->bytes;
}

/* Agree on the size before a broadcast. */
void bcast_size_agreement_begin(struct execution *e)
{
    struct word w = {e->problem.bytes, e->problem.block_size};

    e->size.given = e->size.room = w.bytes;
    e->size.parent = -1;
    if (!has_word(e)) {
        e->size.listens = e->call->root != e->call->comm->rank;
    } else if (word_spreads(e, &w)) {
        word_take(e, &w);
    } else {
        e->problem.block_size = INT64_MAX;
        if (w.bytes > SCRATCH_SURE)
            e->problem.bytes = e->size.room = SCRATCH_SURE;
    }
}

/* Return true if the call must start again, because a size message arrived instead of data. */
bool bcast_size_agreement_again(struct execution *e)
{
    struct word w = {e->problem.bytes, e->problem.block_size};

    if (!e->size.heard)
        return false;
    e->size.heard = false;
    schedule_free(&e->context);
    word_spreads(e, &w);
    word_take(e, &w);
    return true;
}

/* Return true if the message is short because the root has no more data to forward. */
bool bcast_size_agreement_is_short(struct execution *e, int64_t expected, int64_t bytes)
{
    if (e->algorithm->opening == NULL || e->size.told || bytes == 0 || expected != e->size.room)
        return false;
    e->size.room = bytes;
    return true;
}

/* Return the length of a message that this rank has. */
int64_t bcast_size_agreement_length(const struct execution *e, int64_t offset, int64_t length)
{
    const int64_t left = e->size.room > offset ? e->size.room - offset : 0;

    return e->algorithm->opening == NULL || length < left ? length : left;
}

/* Complete a broadcast before unpacking. */
void bcast_size_agreement_end(struct execution *e)
{
    if (e->size.room == e->size.given)
        return;
    pack_buffer_lacks(e, e->staging.buffers[BUFFER_OUT] + e->size.room);
#ifndef MPIPROF_ABI_openmpi
    execution_note(e, MPI_ERR_OTHER);
#endif
}
