/* Runs a schedule with point-to-point calls on a private communicator.
 *
 * A round's local steps, then its messages at once. Receives of up to AHEAD later rounds are posted
 * beforehand where nothing in between reads or writes their ranges, so that a pipeline overlaps;
 * what the next rounds' steps are is asked of the generator when they are needed. Messages carry
 * the call's sequence number in their tag. Messages above CHUNK are cut, alike on both sides.
 *
 * After an error the schedule goes on to its end, as libraries do: the other members wait for this
 * rank's messages. The first error is the call's result. What rounds and requests need is small
 * (memory.h); if there is none at all, a message is left out and the call ends with
 * MPI_ERR_NO_MEM.
 *
 * Members may disagree on sizes. What is longer than this rank expects is truncated by the library.
 * What is shorter is an error too, but where it is its sender's own and ends in this rank's OUT:
 * then it is a message like any other. On a broadcast's size its members agree (lead.c). Wrong data
 * is not passed on: what a rank sends of what has
 * come, after an error, is a marker of another length, which is an error where it arrives. A rank
 * whose own two sizes differ calls the operation off, where all depend on its data: it sends empty
 * messages, whoever gets one does, too, and in the end all run the library's own.
 *
 * Belongs to the calling thread; the memory is the thread's and is kept for the next call.
 */
#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/type.h"
#include "record/comm.h"
#include "run/execute.h"
#include "run/execution.h"
#include "run/lead.h"
#include "run/stage.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/schedule.h"

enum { AHEAD = 4, MANY_STEPS = 8 };
#ifndef CHUNK
#define CHUNK (INT64_C(1) << 28) /* bytes; of an operand: those of its signature */
#endif

struct queued { /* a round that has been generated */
    struct round round;
    bool posted; /* its receives are */
};

struct pending {
    MPI_Request request;
    char *at;
    int64_t expected; /* bytes; of a send 0 */
    bool may_lack;    /* of them some */
};

struct requests {
    struct pending *list;
    int count, room;
};

/* The thread's own, kept from call to call. */
static _Thread_local struct {
    struct queued queue[AHEAD + 1];
    struct requests receives[AHEAD + 1], sends;
} mine;

void execute_release(void)
{
    for (int i = 0; i <= AHEAD; i++) {
        memory_free(mine.queue[i].round.steps);
        memory_free(mine.receives[i].list);
    }
    memory_free(mine.sends.list);
    memset(&mine, 0, sizeof mine);
}

static char *address(const struct execution *e, int buffer, int64_t offset)
{
    return e->buffers[buffer] + (e->reduces ? offset / e->unit * e->extent : offset);
}

/* The next of the chunks that a message or copy of `length` is cut into: whole elements. */
static int64_t chunk_of(const struct execution *e, int64_t length)
{
    const int64_t most = e->reduces ? CHUNK / e->unit * e->unit + e->unit : CHUNK;

    return length < most ? length : most;
}

static int elements(const struct execution *e, int64_t bytes)
{
    return (int)(e->reduces ? bytes / e->unit : bytes);
}

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
        const int64_t part = chunk_of(e, s->length - done);
        const int64_t here = lead_length(e, s->offset + done, part);
        struct pending *const p = request_new(e, r);

        if (p == NULL)
            return;
        char *const at = address(e, s->buffer, s->offset + done);
        const int count = elements(e, here);
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

/* ---- whole blocks, as the user describes them; the library cuts them where it must */

/* More than an int counts: a type of many; to be freed. */
static MPI_Datatype type_of_many(struct execution *e, const struct place *p)
{
    const int64_t part = INT64_C(1) << 30, parts = p->count / part;
    const MPI_Aint places[] = {0, (MPI_Aint)(parts * part * type_facts(p->type).extent)};
    const int one[] = {1, 1};
    MPI_Datatype piece, types[2], whole = p->type;

    execution_note(e, pmpi.Type_contiguous((int)part, p->type, &piece));
    execution_note(e, pmpi.Type_contiguous((int)parts, piece, &types[0]));
    execution_note(e, pmpi.Type_contiguous((int)(p->count % part), p->type, &types[1]));
    execution_note(e, pmpi.Type_create_struct(2, one, places, types, &whole));
    execution_note(e, pmpi.Type_commit(&whole));
    pmpi.Type_free(&piece);
    pmpi.Type_free(&types[0]);
    pmpi.Type_free(&types[1]);
    return whole;
}

/* Makes the count one that an int holds. True: the type is to be freed. */
static bool counted(struct execution *e, struct place *p)
{
    if (p->count <= INT_MAX)
        return false;
    p->type = type_of_many(e, p);
    p->count = 1;
    return true;
}

static void post_block(struct execution *e, const struct step *s, struct requests *r)
{
    struct place at = stage_place(e, s, s->buffer, s->offset, s->peer);
    struct pending *const p = request_new(e, r);

    if (p == NULL)
        return;
    const bool made = counted(e, &at);
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

/* The own block; in place it is where it belongs. */
static void copy_block(struct execution *e, const struct step *s)
{
    const int rank = e->call->comm->rank;
    struct place to = stage_place(e, s, s->buffer, s->offset, rank);
    struct place from = stage_place(e, s, s->source, s->source_offset, rank);

    if (e->joined)
        return;
    const bool to_made = counted(e, &to), from_made = counted(e, &from);

    execution_note(e,
                   pmpi.Sendrecv(from.at, (int)from.count, from.type, rank, e->tag, to.at,
                                 (int)to.count, to.type, rank, e->tag, e->comm, MPI_STATUS_IGNORE));
    if (to_made)
        pmpi.Type_free(&to.type);
    if (from_made)
        pmpi.Type_free(&from.type);
}

static void post_all(struct execution *e, const struct round *round, enum step_kind kind,
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

static void wait_all(struct execution *e, struct requests *r)
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

/* ---- local steps */

static void reduce(struct execution *e, const struct step *s, char *target, char *source,
                   int64_t length)
{
    const int count = elements(e, length);

    if (!(s->flags & STEP_RIGHT)) {
        execution_note(e, pmpi.Reduce_local(source, target, count, e->type, e->op));
    } else { /* source = target op source, then into its place */
        execution_note(e, pmpi.Reduce_local(target, source, count, e->type, e->op));
        execution_copy(e, target, source, length);
    }
}

static void local_step(struct execution *e, const struct step *s)
{
    if (e->called_off) /* this rank's buffers may be shorter than the schedule's */
        return;
    if (e->by_block && (e->blocks[0].side != NULL || e->blocks[1].side != NULL)) {
        copy_block(e, s);
        return;
    }
    for (int64_t done = 0, part; done < s->length; done += part) {
        char *const target = address(e, s->buffer, s->offset + done);
        char *const source = address(e, s->source, s->source_offset + done);

        part = chunk_of(e, s->length - done);
        if (s->kind == STEP_REDUCE)
            reduce(e, s, target, source, part);
        else
            execution_copy(e, target, source, part);
    }
}

static bool is_local(const struct step *s)
{
    return s->kind == STEP_COPY || s->kind == STEP_REDUCE;
}

/* ---- which receives may be posted early */

/* Whether a range meets that of a receive; in place, IN is a part of OUT. */
static bool meets(const struct execution *e, int buffer, int64_t offset, int64_t length,
                  const struct step *receive)
{
    if (e->joined && buffer == BUFFER_IN) {
        buffer = BUFFER_OUT;
        offset += e->in_at;
    }
    return buffer == receive->buffer && offset < receive->offset + receive->length &&
           receive->offset < offset + length;
}

/* Whether a step before a receive reads or writes its range. */
static bool disturbs(const struct execution *e, const struct step *s, const struct step *receive)
{
    return s->kind == STEP_BARRIER || meets(e, s->buffer, s->offset, s->length, receive) ||
           (is_local(s) && meets(e, s->source, s->source_offset, s->length, receive));
}

/* Whether nothing of rounds 0 .. later, which must be generated, is in the way of a receive. */
static bool clear(const struct execution *e, const struct step *receive, int later)
{
    for (int q = 0; q <= later; q++) {
        const struct round *const r = &mine.queue[q].round;

        for (int i = 0; i < r->count; i++)
            if ((q < later || is_local(&r->steps[i])) && disturbs(e, &r->steps[i], receive))
                return false;
    }
    return true;
}

static bool may_be_early(const struct execution *e, int later)
{
    const struct round *const r = &mine.queue[later].round;

    for (int q = 0; q <= later; q++)
        if (mine.queue[q].round.count > MANY_STEPS)
            return false;
    for (int i = 0; i < r->count; i++)
        if (r->steps[i].kind == STEP_RECEIVE && !clear(e, &r->steps[i], later))
            return false;
    return true;
}

static void post_receives(struct execution *e, int place)
{
    post_all(e, &mine.queue[place].round, STEP_RECEIVE, &mine.receives[place]);
    mine.queue[place].posted = true;
}

/* ---- rounds */

static void generate(struct execution *e, int64_t r, int place)
{
    struct queued *const q = &mine.queue[place];

    q->posted = false;
    schedule_round(e->algorithm, &e->context, r, &q->round);
    if (q->round.failed)
        execution_note(e, MPI_ERR_NO_MEM);
    q->round.failed = false;
}

/* The first round leaves the queue; its memory goes to the end for a later one. */
static void turn(int filled)
{
    const struct queued first = mine.queue[0];
    const struct requests receives = mine.receives[0];

    for (int i = 1; i < filled; i++) {
        mine.queue[i - 1] = mine.queue[i];
        mine.receives[i - 1] = mine.receives[i];
    }
    mine.queue[filled - 1] = first;
    mine.receives[filled - 1] = receives;
}

/* What was posted for a schedule that does not go on. */
static void forget_receives(void)
{
    for (int i = 0; i <= AHEAD; i++) {
        for (int j = 0; j < mine.receives[i].count; j++) {
            pmpi.Cancel(&mine.receives[i].list[j].request);
            pmpi.Wait(&mine.receives[i].list[j].request, MPI_STATUS_IGNORE);
        }
        mine.receives[i].count = 0;
    }
}

static void run_round(struct execution *e, int filled)
{
    const struct round *const now = &mine.queue[0].round;

    for (int i = 0; i < now->count; i++) {
        if (is_local(&now->steps[i]))
            local_step(e, &now->steps[i]);
        else if (now->steps[i].kind == STEP_BARRIER)
            execution_note(e, pmpi.Barrier(e->comm));
    }
    if (!mine.queue[0].posted)
        post_receives(e, 0);
    post_all(e, now, STEP_SEND, &mine.sends);
    /* In their order: a receive must not overtake an earlier one from the same rank. */
    for (int i = 1; i < filled && (mine.queue[i].posted || may_be_early(e, i)); i++)
        if (!mine.queue[i].posted)
            post_receives(e, i);
    wait_all(e, &mine.receives[0]);
    if (e->heard)
        forget_receives();
    wait_all(e, &mine.sends);
}

void execute(struct execution *e)
{
    const int64_t rounds = e->algorithm->rounds(&e->context);
    int64_t generated = 0;
    int filled = 0;

    for (int64_t r = 0; r < rounds && !e->heard; r++) {
        while (filled <= AHEAD && generated < rounds)
            generate(e, generated++, filled++);
        run_round(e, filled);
        turn(filled--);
    }
}

/* Makes the own group's counts of one: on an inter-communicator no rank knows more of its own
 * group. They are allgathered among its members. */
void execute_counts(struct execution *e, int64_t *counts, int64_t *room)
{
    const struct communicator *const k = e->call->comm;
    const struct problem p = {.size = k->size, .unit = 1, .bytes = sizeof *counts};
    struct execution own = {.call = e->call,
                            .algorithm = catalogue_find("allgather", "bruck", false),
                            .comm = e->comm,
                            .own_first = e->own_first,
                            .tag = e->tag,
                            .type = MPI_BYTE,
                            .unit = 1,
                            .extent = 1,
                            .solid = true,
                            .joined = true,
                            .in_at = k->rank * p.bytes,
                            .buffers = {(char *)&counts[k->rank], (char *)counts, (char *)room}};

    if (!schedule_prepare(own.algorithm, &own.context, &p, k->rank))
        return; /* never: it needs nothing */
    execute(&own);
    schedule_free(&own.context);
    execution_note(e, own.error);
}
