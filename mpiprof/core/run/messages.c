/* The messages of a schedule's rounds: posted, marked and waited for.
 *
 * They carry the call's sequence number in their tag. Those above CHUNK are cut, alike on both
 * sides.
 *
 * Members may disagree on sizes. What is longer than this rank expects is truncated by the library.
 * What is shorter is an error too, but where it is its sender's own and ends in this rank's OUT:
 * then it is a message like any other. On a broadcast's size its members agree (lead.c). Wrong data
 * is not passed on: what a rank sends of what has come, after an error, is a marker of another
 * length, which is an error where it arrives. A rank whose own two sizes differ calls the operation
 * off, where all depend on its data: it sends empty messages, whoever gets one does, too, and in the
 * end all run the library's own.
 */
#include "run/messages.h"

#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "run/blocks.h"
#include "run/execution.h"
#include "run/lead.h"
#include "run/stage.h"
#include "schedule/schedule.h"

/* NULL: no memory, which is noted. */
static struct pending *request_new(struct execution *e, struct requests *r)
{
    if (r->count == r->room) {
        const int room = r->room < 16 ? 16 : 2 * r->room;
        struct pending *const list =
            memory_resize(r->list, sizeof *list * (size_t)r->room, sizeof *list * (size_t)room);

        if (list == NULL) {
            execution_note(e, MPI_ERR_NO_MEM);
            return NULL;
        }
        r->list = list;
        r->room = room;
    }
    return &r->list[r->count++];
}

static bool may_call_off(const struct execution *e)
{
    return !e->reduces && e->algorithm->opening == NULL;
}

/* A message in place of one of `length` bytes: of no bytes, or of a wrong number of them.
 * Reductions and broadcasts are not called off; parts of a reduction's elements would be more than
 * MPICH can bear, and a broadcast of one byte may be a root's own. */
static int post_marker(struct execution *e, int64_t length, int peer, MPI_Request *request)
{
    static const char marker[2];
    const int bytes = e->called_off || !may_call_off(e) ? 0 : length == 1 ? 2 : 1;

    return pmpi.Isend(marker, bytes, MPI_BYTE, peer, e->tag, e->comm, request);
}

/* Whether a step would send what it must not. */
static bool is_marked(const struct execution *e, const struct step *s)
{
    return s->length > 0 && (e->called_off || (e->error != MPI_SUCCESS && !e->algorithm->direct &&
                                               s->buffer != BUFFER_IN));
}

/* Whether fewer bytes than this rank expects are right as far as they go. */
static bool may_lack(const struct execution *e, const struct step *s)
{
    const int operation = e->call->operation;

    return s->buffer == BUFFER_OUT &&
           (e->algorithm->direct ||
            ((operation == OP_gather || operation == OP_scatter) && s->length == e->problem.bytes));
}

static void post(struct execution *e, const struct step *s, struct requests *r)
{
    const int peer = s->peer + (s->flags & STEP_REMOTE ? e->remote_first : e->own_first);
    int64_t done = 0;

    do {
        const int64_t part = execution_chunk(e, s->length - done);
        const int64_t here = lead_length(e, s->offset + done, part);
        struct pending *const p = request_new(e, r);

        if (p == NULL)
            return;
        char *const at = execution_address(e, s->buffer, s->offset + done);
        const int count = execution_elements(e, here);
        int error;

        p->at = at;
        p->expected = s->kind == STEP_SEND ? 0 : here;
        p->may_lack = may_lack(e, s);
        if (s->kind == STEP_RECEIVE) {
            e->parent = e->listens && e->parent < 0 ? peer : e->parent;
            error = pmpi.Irecv(at, count, e->type, peer, e->tag, e->comm, &p->request);
        } else if (is_marked(e, s))
            error = post_marker(e, part, peer, &p->request);
        else
            error = pmpi.Isend(at, count, e->type, peer, e->tag, e->comm, &p->request);
        if (error != MPI_SUCCESS)
            r->count--;
        execution_note(e, error);
        done += part;
    } while (done < s->length);
}

/* A whole block, as the user describes it. */
static void post_block(struct execution *e, const struct step *s, struct requests *r)
{
    struct place at = stage_place(e, s, s->buffer, s->offset, s->peer);
    struct pending *const p = request_new(e, r);

    if (p == NULL)
        return;
    const bool made = blocks_counted(e, &at);
    const int peer = s->peer + e->own_first, count = (int)at.count;
    int error;

    p->at = at.at;
    p->expected = s->kind == STEP_SEND ? 0 : s->length;
    p->may_lack = may_lack(e, s);
    if (s->kind == STEP_RECEIVE)
        error = pmpi.Irecv(at.at, count, at.type, peer, e->tag, e->comm, &p->request);
    else if (is_marked(e, s))
        error = post_marker(e, s->length, peer, &p->request);
    else
        error = pmpi.Isend(at.at, count, at.type, peer, e->tag, e->comm, &p->request);
    if (error != MPI_SUCCESS)
        r->count--;
    execution_note(e, error);
    if (made)
        pmpi.Type_free(&at.type);
}

/* The round's messages of one kind, sends or receives. */
void messages_post(struct execution *e, const struct round *round, enum step_kind kind,
                   struct requests *r)
{
    for (int i = 0; i < round->count; i++)
        if (round->steps[i].kind == kind && e->by_block)
            post_block(e, &round->steps[i], r);
        else if (round->steps[i].kind == kind)
            post(e, &round->steps[i], r);
}

/* What has come in place of the bytes that were expected. One byte may be a marker. */
static void note_length(struct execution *e, const struct pending *p, const MPI_Status *status)
{
    MPI_Count bytes = 0;

    pmpi.Get_elements_x(status, MPI_BYTE, &bytes); /* of whatever type they were received */
    if (bytes == p->expected)
        return;
    if (bytes == 0 && may_call_off(e))
        e->called_off = true;
    else if (lead_is_short(e, p->expected, bytes))
        return;
    else if (p->may_lack && (bytes > 1 || e->algorithm->direct))
        stage_lacks(e, p->at + bytes);
    else
        execution_note(e, MPI_ERR_OTHER);
}

void messages_wait(struct execution *e, struct requests *r)
{
    for (int i = 0; i < r->count; i++) {
        struct pending *const p = &r->list[i];
        MPI_Status status;
        const int error =
            e->listens ? lead_wait(e, &p->request, &status) : pmpi.Wait(&p->request, &status);

        execution_note(e, error);
        if (error == MPI_SUCCESS && p->expected > 0 && !e->heard)
            note_length(e, p, &status);
    }
    r->count = 0;
}

/* What was posted for a schedule that does not go on. */
void messages_cancel(struct requests *r)
{
    for (int i = 0; i < r->count; i++) {
        pmpi.Cancel(&r->list[i].request);
        pmpi.Wait(&r->list[i].request, MPI_STATUS_IGNORE);
    }
    r->count = 0;
}

void messages_free(struct requests *r)
{
    memory_free(r->list);
}
