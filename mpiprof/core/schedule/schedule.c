/* Preparation of schedules, and the steps that generators emit. No state. */
#include "schedule/schedule.h"

#include "base/base.h"
#include <string.h>

/* Returns false if the algorithm does not apply to the problem, or there is no memory. */
bool schedule_prepare(const struct algorithm *a, struct context *c, const struct problem *p,
                      int rank)
{
    *c =
        (struct context){.problem = p,
                         .algorithm = a,
                         .rank = rank,
                         .size = p->size,
                         .all_parts = strstr(a->operation, "reduce") != NULL || a->opening != NULL};
    if (a->applies != NULL && !a->applies(p))
        return false;
    if (a->prepare == NULL || a->prepare(c))
        return true;
    schedule_free(c);
    return false;
}

int64_t schedule_scratch_of(const struct algorithm *a, const struct problem *p)
{
    return a->scratch != NULL ? a->scratch(p) : 0;
}

void schedule_free(struct context *c)
{
    memory_free(c->table);
    c->table = NULL;
}

/* Generate the steps of round r. Members of a reduction or broadcast may disagree on its size in an
 * erroneous program. A member with fewer elements than there are ranks would send and expect fewer
 * messages than the others, and wait forever. So all members exchange the same number of messages,
 * and a wrong length is detected. */
void schedule_round(const struct algorithm *a, const struct context *c, int64_t r,
                    struct round *out)
{
    out->count = 0;
    out->all_parts = c->all_parts;
    a->round(c, r, out);
}

/* ---- steps */

static void emit(struct round *r, struct step step)
{
    if (r->count == r->room) {
        const int room = r->room < 16 ? 16 : 2 * r->room;
        struct step *const steps =
            memory_resize(r->steps, sizeof *steps * (size_t)r->room, sizeof *steps * (size_t)room);

        if (steps == NULL) {
            r->failed = true;
            return;
        }
        r->steps = steps;
        r->room = room;
    }
    r->steps[r->count++] = step;
}

static void emit_flagged(struct round *r, enum step_kind kind, int peer, enum buffer b,
                         struct range range, int flags)
{
    if (range.length == 0 && r->all_parts)
        flags |= STEP_TOKEN;
    if (range.length > 0 || flags & STEP_TOKEN)
        emit(r, (struct step){.kind = (uint8_t)kind,
                              .peer = peer,
                              .buffer = (uint8_t)b,
                              .offset = range.begin,
                              .length = range.length,
                              .flags = (uint8_t)flags});
}

void emit_message(struct round *r, enum step_kind kind, int peer, enum buffer b, struct range range)
{
    emit_flagged(r, kind, peer, b, range, 0);
}

void emit_remote(struct round *r, enum step_kind kind, int peer, enum buffer b, struct range range)
{
    emit_flagged(r, kind, peer, b, range, STEP_REMOTE);
}

void emit_token(struct round *r, enum step_kind kind, int peer)
{
    emit_flagged(r, kind, peer, BUFFER_IN, (struct range){0}, STEP_TOKEN);
}

void emit_send(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length)
{
    emit_message(r, STEP_SEND, peer, b, (struct range){offset, length});
}

void emit_receive(struct round *r, int peer, enum buffer b, int64_t offset, int64_t length)
{
    emit_message(r, STEP_RECEIVE, peer, b, (struct range){offset, length});
}

void emit_copy(struct round *r, enum buffer to, int64_t offset, enum buffer from,
               int64_t source_offset, int64_t length)
{
    if (length > 0)
        emit(r, (struct step){.kind = STEP_COPY,
                              .buffer = (uint8_t)to,
                              .offset = offset,
                              .source = (uint8_t)from,
                              .source_offset = source_offset,
                              .length = length});
}

void emit_reduce(struct round *r, enum buffer into, int64_t offset, enum buffer from,
                 int64_t source_offset, int64_t length, bool source_is_right)
{
    if (length > 0)
        emit(r, (struct step){.kind = STEP_REDUCE,
                              .buffer = (uint8_t)into,
                              .offset = offset,
                              .source = (uint8_t)from,
                              .source_offset = source_offset,
                              .length = length,
                              .flags = source_is_right ? STEP_RIGHT : 0});
}

void emit_barrier(struct round *r)
{
    emit(r, (struct step){.kind = STEP_BARRIER});
}

int64_t part_begin(int64_t total, int64_t unit, int64_t n, int64_t i)
{
    const int64_t units = total / unit, each = units / n, larger = units % n;

    return unit * (i * each + (i < larger ? i : larger));
}
