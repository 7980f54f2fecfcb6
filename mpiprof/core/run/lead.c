/* What size a broadcast has, where its members may disagree on it.
 *
 * How many messages a rank sends and waits for follows from the size that it was given. In a wrong
 * program that may not be the root's: then ranks would wait for blocks that nobody sends, or take a
 * part for the whole. So it is the root's size that counts. Where the root sends in blocks, or more
 * than scratch memory holds in any case (scratch.c), a word of its size goes ahead, over the tree
 * on which the algorithm opens (schedule.h). Less than that goes without a word:
 *
 *                         the root sends a word       the root sends the message alone
 *   who waits for a word  takes its size              finds the message there: it is in one block
 *   who waits for the     finds the word there, and   gets it; its length tells
 *   message alone         takes its size
 *
 * Either has a tag of its own, and comes from the same rank. So all members send and expect what
 * the root's size asks for. Who was given less than that takes what there is room for, and has an
 * error. Who was given more gets what there is: MPICH calls that an error, Open MPI does not.
 *
 * Belongs to the calling thread.
 */
#include <sched.h>

#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "record/comm.h"
#include "run/execution.h"
#include "run/lead.h"
#include "run/scratch.h"
#include "run/stage.h"
#include "schedule/schedule.h"

enum { PATIENCE = 256 }; /* tests between two looks for the other kind of message */

struct word {
    int64_t bytes, block_size;
};

static bool has_word(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    int64_t (*const blocks)(const struct problem *) = e->algorithm->blocks;

    return p->bytes > SCRATCH_SURE || (blocks != NULL && blocks(p) > 1);
}

/* Waits for a message; false: its sender has sent one of the other kind, with another tag. */
static bool arrives(const struct execution *e, MPI_Request *request, int other_tag, int *error,
                    MPI_Status *status)
{
    for (int done = 0, there = 0;; sched_yield()) {
        for (int i = 0; i < PATIENCE; i++) {
            *error = pmpi.Test(request, &done, status);
            if (done || *error != MPI_SUCCESS)
                return true;
        }
        *error = pmpi.Iprobe(e->parent, other_tag, e->comm, &there, MPI_STATUS_IGNORE);
        if (!there && *error == MPI_SUCCESS)
            continue;
        pmpi.Cancel(request);
        pmpi.Wait(request, MPI_STATUS_IGNORE);
        return *error != MPI_SUCCESS;
    }
}

/* For the message that this rank listens for. */
int lead_wait(struct execution *e, MPI_Request *request, MPI_Status *status)
{
    int error;

    e->heard = !arrives(e, request, e->tag + LEAD_TAGS, &error, status);
    e->listens = false;
    return error;
}

/* False: the message itself is there. */
static bool word_comes(struct execution *e, struct word *w)
{
    MPI_Request request;
    MPI_Status status;
    int error =
        pmpi.Irecv(w, sizeof *w, MPI_BYTE, e->parent, e->tag + LEAD_TAGS, e->comm, &request);
    const bool comes = error != MPI_SUCCESS || arrives(e, &request, e->tag, &error, &status);

    execution_note(e, error);
    return comes;
}

/* Gets the root's word, but at the root, and passes it on; false: the message itself is there. */
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
                e->parent = peer;
                comes = word_comes(e, w);
            } else {
                execution_note(
                    e, pmpi.Send(w, sizeof *w, MPI_BYTE, peer, e->tag + LEAD_TAGS, e->comm));
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
    e->told = true;
    e->tag += LEAD_TAGS;
    e->problem.bytes = w->bytes;
    e->problem.block_size = w->block_size;
    if (w->bytes > e->given)
        execution_note(e, MPI_ERR_TRUNCATE);
    else
        e->room = w->bytes;
}

/* Before a call that is a broadcast: what all members are to believe. */
void lead_begin(struct execution *e)
{
    struct word w = {e->problem.bytes, e->problem.block_size};

    e->given = e->room = w.bytes;
    e->parent = -1;
    if (!has_word(e)) {
        e->listens = e->call->root != e->call->comm->rank;
    } else if (word_spreads(e, &w)) {
        word_take(e, &w);
    } else {
        e->problem.block_size = INT64_MAX;
        if (w.bytes > SCRATCH_SURE)
            e->problem.bytes = e->room = SCRATCH_SURE;
    }
}

/* Whether the call has to begin again, as a word has come in place of the message. */
bool lead_again(struct execution *e)
{
    struct word w = {e->problem.bytes, e->problem.block_size};

    if (!e->heard)
        return false;
    e->heard = false;
    schedule_free(&e->context);
    word_spreads(e, &w);
    word_take(e, &w);
    return true;
}

/* Whether less has come than was expected, as the root has no more; then no more is passed on. */
bool lead_is_short(struct execution *e, int64_t expected, int64_t bytes)
{
    if (e->algorithm->opening == NULL || e->told || bytes == 0 || expected != e->room)
        return false;
    e->room = bytes;
    return true;
}

/* How much of a message this rank has, and others are to get. */
int64_t lead_length(const struct execution *e, int64_t offset, int64_t length)
{
    const int64_t left = e->room > offset ? e->room - offset : 0;

    return e->algorithm->opening == NULL || length < left ? length : left;
}

/* After a call that is a broadcast, and before what has come is unpacked. */
void lead_end(struct execution *e)
{
    if (e->room == e->given)
        return;
    stage_lacks(e, e->buffers[BUFFER_OUT] + e->room);
#ifndef MPIPROF_ABI_openmpi
    execution_note(e, MPI_ERR_OTHER);
#endif
}
