/* Messages of a schedule's rounds: posting, marking and waiting.
 *
 * Each message carries the number of the blocking call in its tag. Messages above CHUNK are split,
 * identically on both sides.
 *
 * Members may disagree on sizes. The library truncates a message that is longer than expected. A
 * shorter message is an error too, unless it carries only its sender's data and goes to this rank's
 * OUT. The members of a broadcast agree on its size (bcast_size_agreement.c).
 *
 * Wrong data is not forwarded. After an error, a rank sends a marker instead of received data. A
 * marker has another length, which is an error at its receiver. If the two sizes of a rank differ
 * and all members depend on its data, it cancels the operation. It sends empty messages, and so
 * does every rank that receives an empty message. In the end all members run the library's default.
 */
#include "executor/execution.h"

#include "base/base.h"
#include "base/pmpi.h"

/* Returns NULL if there is no memory; the error is recorded. */
static struct pending *request_new(struct execution *e, struct requests *r)
{
    if (r->count == r->room) {
        const int room = r->room < 16 ? 16 : 2 * r->room;
        struct pending *const list =
            memory_resize(r->list, sizeof *list * (size_t)r->room, sizeof *list * (size_t)room);

        if (list == NULL) {
            execution_note_error(e, MPI_ERR_NO_MEM);
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

/* Send a marker instead of a message of `length` bytes: an empty message, or one with a wrong
 * length. An empty message cancels the operation, except for reductions and broadcasts, which have
 * only empty markers. MPICH does not tolerate fractions of a reduction's elements, and one byte may
 * be the data of a broadcast. */
static int marker_post(struct execution *e, int64_t length, int peer, MPI_Request *request)
{
    static const char marker[2];
    const int bytes = e->called_off || !may_call_off(e) ? 0 : length == 1 ? 2 : 1;

    return pmpi.Isend(marker, bytes, MPI_BYTE, peer, e->route.tag, e->route.comm, request);
}

static bool is_marked(const struct execution *e, const struct step *s)
{
    return s->length > 0 && (e->called_off || (e->error != MPI_SUCCESS && !e->algorithm->direct &&
                                               s->buffer != BUFFER_IN));
}

/* Return true if fewer bytes than expected are valid. */
static bool may_be_short(const struct execution *e, const struct step *s)
{
    const int operation = e->call->operation;

    return s->buffer == BUFFER_OUT &&
           (e->algorithm->direct ||
            ((operation == OP_gather || operation == OP_scatter) && s->length == e->problem.bytes));
}

/* Post a message of `length` bytes, of which this rank has `here`. Returns false without memory. */
static bool message_post(struct execution *e, const struct step *s, const struct block_place *at,
                         int64_t length, int64_t here, struct requests *r)
{
    const int peer =
        s->peer + (s->flags & STEP_REMOTE ? e->route.remote_first : e->route.own_first);
    const int count = (int)at->count, tag = e->route.tag;
    struct pending *const p = request_new(e, r);
    int error;

    if (p == NULL)
        return false;
    p->at = at->at;
    p->expected = s->kind == STEP_SEND ? 0 : here;
    p->may_be_short = may_be_short(e, s);
    if (s->kind == STEP_RECEIVE) {
        if (e->size.expects_size && e->size.parent < 0)
            e->size.parent = peer;
        error = pmpi.Irecv(at->at, count, at->type, peer, tag, e->route.comm, &p->request);
    } else if (is_marked(e, s)) {
        error = marker_post(e, length, peer, &p->request);
    } else {
        error = pmpi.Isend(at->at, count, at->type, peer, tag, e->route.comm, &p->request);
    }
    if (error != MPI_SUCCESS)
        r->count--;
    execution_note_error(e, error);
    return true;
}

static void chunks_post(struct execution *e, const struct step *s, struct requests *r)
{
    int64_t done = 0, part;
    bool posted;

    do {
        part = execution_chunk(e, s->length - done);
        const int64_t here = bcast_size_agreement_length(e, s->offset + done, part);
        const struct block_place at = {execution_address(e, s->buffer, s->offset + done),
                                       execution_elements(e, here), e->element.type};

        posted = message_post(e, s, &at, part, here, r);
        done += part;
    } while (posted && done < s->length);
}

static void block_post(struct execution *e, const struct step *s, struct requests *r)
{
    struct block_place at = pack_buffer_place(e, s, s->buffer, s->offset, s->peer);
    const bool made = block_layout_limit_count(e, &at);

    message_post(e, s, &at, s->length, s->length, r);
    if (made)
        pmpi.Type_free(&at.type);
}

void messages_post(struct execution *e, const struct round *round, enum step_kind kind,
                   struct requests *r)
{
    for (int i = 0; i < round->count; i++)
        if (round->steps[i].kind == kind)
            (e->staging.by_block ? block_post : chunks_post)(e, &round->steps[i], r);
}

/* Evaluate the received length. One byte may be a marker. */
static void note_length(struct execution *e, const struct pending *p, const MPI_Status *status)
{
    MPI_Count bytes = 0;

    pmpi.Get_elements_x(status, MPI_BYTE, &bytes); /* for any type of the receive */
    if (bytes == p->expected)
        return;
    if (bytes == 0 && may_call_off(e))
        e->called_off = true;
    else if (bcast_size_agreement_is_short(e, p->expected, bytes))
        return;
    else if (p->may_be_short && (bytes > 1 || e->algorithm->direct))
        pack_buffer_note_missing(e, p->at + bytes);
    else
        execution_note_error(e, MPI_ERR_OTHER);
}

void messages_wait(struct execution *e, struct requests *r)
{
    for (int i = 0; i < r->count; i++) {
        struct pending *const p = &r->list[i];
        MPI_Status status;
        const int error = e->size.expects_size ? bcast_size_agreement_wait(e, &p->request, &status)
                                               : pmpi.Wait(&p->request, &status);

        execution_note_error(e, error);
        if (error == MPI_SUCCESS && p->expected > 0 && !e->size.size_arrived)
            note_length(e, p, &status);
    }
    r->count = 0;
}

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
