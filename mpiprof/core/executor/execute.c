/* Execution of a schedule with point-to-point calls on a private communicator.
 *
 * A round runs its local steps and then posts all its messages at once. Receives of up to AHEAD
 * later rounds are posted early if no step in between reads or writes their ranges, so that a
 * pipeline overlaps. The generator computes the steps of a round when they are needed.
 *
 * After an error the schedule continues to its end, as in MPI libraries, because the other members
 * wait for this rank's messages. The first error is the call's result. Rounds and requests need
 * little memory (memory.c). If there is none at all, a message is omitted and the call ends with
 * MPI_ERR_NO_MEM.
 *
 * Threads: all state belongs to the calling thread, which reuses the memory in its next call.
 */
#include <string.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/symbol_lookup.h"
#include "executor/buffers.h"
#include "executor/execution.h"
#include "record/communicator.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/schedule.h"

enum { AHEAD = 4, MANY_STEPS = 8 };

struct queued { /* a generated round */
    struct round round;
    bool posted; /* its receives have been posted */
};

/* per thread, reused from call to call */
static _Thread_local struct {
    struct queued queue[AHEAD + 1];
    struct requests receives[AHEAD + 1], sends;
} thread_queue;

void execute_release(void)
{
    for (int i = 0; i <= AHEAD; i++) {
        memory_free(thread_queue.queue[i].round.steps);
        messages_free(&thread_queue.receives[i]);
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

    execution_note_error(e, pmpi.Sendrecv(from.at, (int)from.count, from.type, rank, e->route.tag,
                                          to.at, (int)to.count, to.type, rank, e->route.tag,
                                          e->route.comm, MPI_STATUS_IGNORE));
    if (to_made)
        pmpi.Type_free(&to.type);
    if (from_made)
        pmpi.Type_free(&from.type);
}

static void reduce_step(struct execution *e, const struct step *s, char *target, char *source,
                        int64_t length)
{
    const int count = execution_elements(e, length);

    if (!(s->flags & STEP_RIGHT)) {
        execution_note_error(
            e, pmpi.Reduce_local(source, target, count, e->element.type, e->element.op));
    } else { /* source = target op source, then copy to the target */
        execution_note_error(
            e, pmpi.Reduce_local(target, source, count, e->element.type, e->element.op));
        execution_copy(e, target, source, length);
    }
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

/* Return true if an earlier step reads or writes the range of a receive. */
static bool disturbs(const struct execution *e, const struct step *s, const struct step *receive)
{
    return s->kind == STEP_BARRIER || overlaps(e, s->buffer, s->offset, s->length, receive) ||
           (is_local(s) && overlaps(e, s->source, s->source_offset, s->length, receive));
}

/* Return true if no step of rounds 0 .. later conflicts with a receive. */
static bool is_undisturbed(const struct execution *e, const struct step *receive, int later)
{
    for (int q = 0; q <= later; q++) {
        const struct round *const r = &thread_queue.queue[q].round;

        for (int i = 0; i < r->count; i++)
            if ((q < later || is_local(&r->steps[i])) && disturbs(e, &r->steps[i], receive))
                return false;
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

static void post_receives(struct execution *e, int place)
{
    messages_post(e, &thread_queue.queue[place].round, STEP_RECEIVE, &thread_queue.receives[place]);
    thread_queue.queue[place].posted = true;
}

/* ---- rounds */

static void round_generate(struct execution *e, int64_t r, int place)
{
    struct queued *const q = &thread_queue.queue[place];

    q->posted = false;
    schedule_round(e->algorithm, &e->context, r, &q->round);
    if (q->round.failed)
        execution_note_error(e, MPI_ERR_NO_MEM);
    q->round.failed = false;
}

/* Remove the first round; its memory moves to the end of the queue. */
static void queue_advance(int filled)
{
    const struct queued first = thread_queue.queue[0];
    const struct requests receives = thread_queue.receives[0];

    for (int i = 1; i < filled; i++) {
        thread_queue.queue[i - 1] = thread_queue.queue[i];
        thread_queue.receives[i - 1] = thread_queue.receives[i];
    }
    thread_queue.queue[filled - 1] = first;
    thread_queue.receives[filled - 1] = receives;
}

static void receives_cancel(void)
{
    for (int i = 0; i <= AHEAD; i++)
        messages_cancel(&thread_queue.receives[i]);
}

static void run_round(struct execution *e, int filled)
{
    const struct round *const now = &thread_queue.queue[0].round;

    for (int i = 0; i < now->count; i++) {
        if (is_local(&now->steps[i]))
            local_step(e, &now->steps[i]);
        else if (now->steps[i].kind == STEP_BARRIER)
            execution_note_error(e, pmpi.Barrier(e->route.comm));
    }
    if (!thread_queue.queue[0].posted)
        post_receives(e, 0);
    messages_post(e, now, STEP_SEND, &thread_queue.sends);
    /* Post in order: a receive must not overtake an earlier receive from the same rank. */
    for (int i = 1; i < filled && (thread_queue.queue[i].posted || may_be_early(e, i)); i++)
        if (!thread_queue.queue[i].posted)
            post_receives(e, i);
    messages_wait(e, &thread_queue.receives[0]);
    if (e->size.size_arrived)
        receives_cancel();
    messages_wait(e, &thread_queue.sends);
}

void execute(struct execution *e)
{
    const int64_t rounds = e->algorithm->rounds(&e->context);
    int64_t generated = 0;
    int filled = 0;

    for (int64_t r = 0; r < rounds && !e->size.size_arrived; r++) {
        while (filled <= AHEAD && generated < rounds)
            round_generate(e, generated++, filled++);
        run_round(e, filled);
        queue_advance(filled--);
    }
}

/* Allgather the counts of the local group, because on an inter-communicator a rank knows only its
 * own. */
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

    if (!schedule_prepare(own.algorithm, &own.context, &p, k->rank))
        return; /* cannot happen: the algorithm requires no memory */
    execute(&own);
    schedule_free(&own.context);
    execution_note_error(e, own.error);
}
