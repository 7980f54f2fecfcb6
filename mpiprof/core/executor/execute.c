/* Execution of a schedule with point-to-point calls on a private communicator.
 *
 * A round runs its local steps and then posts all its messages at once. Receives of up to AHEAD
 * later rounds are posted early if no step in between reads or writes their ranges, so that a
 * pipeline overlaps.
 *
 * After an error the schedule continues to its end, as in MPI libraries, because the other members
 * wait for this rank's messages. The first error is the call's result. Without any memory a message
 * is omitted, and the call ends with MPI_ERR_NO_MEM.
 *
 * Threads: all state belongs to the calling thread, which reuses the memory in its next call.
 */
#include <string.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "executor/execution.h"
#include "record/communicator.h"
#include "schedule/algorithms/catalogue.h"

enum { AHEAD = 4, MANY_STEPS = 8 };

struct queued { /* a generated round */
    struct round round;
    struct requests receives;
    bool posted; /* its receives have been posted */
};

/* per thread, reused from call to call */
static _Thread_local struct {
    struct queued queue[AHEAD + 1];
    struct requests sends;
} thread_queue;

void execute_release(void)
{
    for (int i = 0; i <= AHEAD; i++) {
        memory_free(thread_queue.queue[i].round.steps);
        messages_free(&thread_queue.queue[i].receives);
    }
    messages_free(&thread_queue.sends);
    memset(&thread_queue, 0, sizeof thread_queue);
}

/* ---- local steps */

/* Copy this rank's block. In place, the block is already in its position. */
static void copy_block(struct execution *e, const struct step *s)
{
    const int rank = e->call->comm->rank;
    struct block_place to = pack_buffer_place(e, s, s->buffer, s->offset, rank);
    struct block_place from = pack_buffer_place(e, s, s->source, s->source_offset, rank);

    if (e->staging.in_place)
        return;
    const bool to_made = block_layout_limit_count(e, &to),
               from_made = block_layout_limit_count(e, &from);

    execution_self_send(e, &from, &to);
    if (to_made)
        pmpi.Type_free(&to.type);
    if (from_made)
        pmpi.Type_free(&from.type);
}

static void reduce_step(struct execution *e, const struct step *s, char *target, char *source,
                        int64_t length)
{
    const int count = execution_elements(e, length);

    const bool right = (s->flags & STEP_RIGHT) != 0; /* source = target op source */

    execution_note_error(e, pmpi.Reduce_local(right ? target : source, right ? source : target,
                                              count, e->element.type, e->element.op));
    if (right)
        execution_copy(e, target, source, length);
}

static void local_step(struct execution *e, const struct step *s)
{
    if (e->called_off) /* this rank's buffers may be shorter than the schedule's */
        return;
    if (e->staging.by_block &&
        (e->staging.blocks[0].side != NULL || e->staging.blocks[1].side != NULL)) {
        copy_block(e, s);
        return;
    }
    for (int64_t done = 0, part; done < s->length; done += part) {
        char *const target = execution_address(e, s->buffer, s->offset + done);
        char *const source = execution_address(e, s->source, s->source_offset + done);

        part = execution_chunk(e, s->length - done);
        if (s->kind == STEP_REDUCE)
            reduce_step(e, s, target, source, part);
        else
            execution_copy(e, target, source, part);
    }
}

static bool is_local(const struct step *s)
{
    return s->kind == STEP_COPY || s->kind == STEP_REDUCE;
}

/* ---- early receives */

/* Return true if a range overlaps that of a receive. In place, IN is a part of OUT. */
static bool overlaps(const struct execution *e, int buffer, int64_t offset, int64_t length,
                     const struct step *receive)
{
    if (e->staging.in_place && buffer == BUFFER_IN) {
        buffer = BUFFER_OUT;
        offset += e->staging.in_at;
    }
    return buffer == receive->buffer && offset < receive->offset + receive->length &&
           receive->offset < offset + length;
}

/* Return true if no step of rounds 0 .. later reads or writes the range of a receive. */
static bool is_undisturbed(const struct execution *e, const struct step *receive, int later)
{
    for (int q = 0; q <= later; q++) {
        const struct round *const r = &thread_queue.queue[q].round;

        for (int i = 0; i < r->count; i++) {
            const struct step *const s = &r->steps[i];

            if (q == later && !is_local(s))
                continue;
            if (s->kind == STEP_BARRIER || overlaps(e, s->buffer, s->offset, s->length, receive) ||
                (is_local(s) && overlaps(e, s->source, s->source_offset, s->length, receive)))
                return false;
        }
    }
    return true;
}

static bool may_be_early(const struct execution *e, int later)
{
    const struct round *const r = &thread_queue.queue[later].round;

    for (int q = 0; q <= later; q++)
        if (thread_queue.queue[q].round.count > MANY_STEPS)
            return false;
    for (int i = 0; i < r->count; i++)
        if (r->steps[i].kind == STEP_RECEIVE && !is_undisturbed(e, &r->steps[i], later))
            return false;
    return true;
}

static void post_receives(struct execution *e, struct queued *q)
{
    if (!q->posted)
        messages_post(e, &q->round, STEP_RECEIVE, &q->receives);
    q->posted = true;
}

/* ---- rounds */

static void run_round(struct execution *e, int filled)
{
    struct queued *const queue = thread_queue.queue;
    const struct round *const now = &queue[0].round;

    for (int i = 0; i < now->count; i++) {
        if (is_local(&now->steps[i]))
            local_step(e, &now->steps[i]);
        else if (now->steps[i].kind == STEP_BARRIER)
            execution_note_error(e, pmpi.Barrier(e->route.comm));
    }
    post_receives(e, &queue[0]);
    messages_post(e, now, STEP_SEND, &thread_queue.sends);
    /* Post in order: a receive must not overtake an earlier receive from the same rank. */
    for (int i = 1; i < filled && (queue[i].posted || may_be_early(e, i)); i++)
        post_receives(e, &queue[i]);
    messages_wait(e, &queue[0].receives);
    for (int i = 0; i <= AHEAD && e->size.size_arrived; i++)
        messages_cancel(&queue[i].receives);
    messages_wait(e, &thread_queue.sends);
}

void execute(struct execution *e)
{
    struct queued *const queue = thread_queue.queue;
    const int64_t rounds = e->algorithm->rounds(&e->context);
    int64_t generated = 0;
    int filled = 0;

    for (int64_t r = 0; r < rounds && !e->size.size_arrived; r++) {
        for (; filled <= AHEAD && generated < rounds; filled++) {
            struct round *const next = &queue[filled].round;

            queue[filled].posted = false;
            schedule_round(e->algorithm, &e->context, generated++, next);
            if (next->failed)
                execution_note_error(e, MPI_ERR_NO_MEM);
            next->failed = false;
        }
        run_round(e, filled);
        /* The first round leaves; its memory moves to the end of the queue. */
        const struct queued first = queue[0];

        memmove(queue, queue + 1, (size_t)--filled * sizeof *queue);
        queue[filled] = first;
    }
}

/* Allgather the counts of the local group: a rank of an inter-communicator knows only its own. */
void execute_counts(struct execution *e, int64_t *counts, int64_t *room)
{
    const struct communicator *const k = e->call->comm;
    const struct problem p = {.size = k->size, .unit = 1, .bytes = sizeof *counts};
    struct execution own = {
        .call = e->call,
        .algorithm = catalogue_find("allgather", "bruck", false),
        .route = e->route,
        .element = element_byte(),
        .staging = {.in_place = true,
                    .in_at = k->rank * p.bytes,
                    .buffers = {(char *)&counts[k->rank], (char *)counts, (char *)room}}};

    schedule_prepare(own.algorithm, &own.context, &p, k->rank); /* succeeds: needs no memory */
    execute(&own);
    schedule_free(&own.context);
    execution_note_error(e, own.error);
}
