/* Conversion of the events of one OTF2 location to collective calls.
 *
 * OTF2's reader calls a function here for each event. This takes some 10 ns, compared with 1 us for
 * a Python function. Python opens the files and passes these functions to the reader. The build
 * needs no OTF2: the declarations used here have not changed since OTF2 version 2, and all
 * arguments are plain numbers. One thread at a time uses a reading.
 *
 * A stack contains the entered regions. A record of a collective creates a call, which gets its
 * exit when the region is left. A region that is never left stays open.
 */
#include <stdlib.h>
#include <string.h>

#include "otf2/reading.h"

#define QUOTE(type, name, format) #name ":" format " "

/* Return the names and types of the fields of a call, or of a message. */
DOOR const char *reading_layout(int message)
{
    return message != 0 ? MESSAGE_FIELDS(QUOTE) : CALL_FIELDS(QUOTE);
}

DOOR struct reading *reading_open(const uint8_t *classes, uint32_t class_count,
                                  const uint32_t *regions, uint32_t context_count,
                                  uint32_t first_attribute, void *attribute_count, void *attribute)
{
    struct reading *const r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    r->classes = classes;
    r->class_count = class_count;
    r->regions = regions;
    r->context_count = context_count;
    r->first_attribute = first_attribute;
    r->facts.first_time = r->facts.initialised = r->facts.finalising = NEVER;
    r->facts.program = UNKNOWN;
    memcpy(&r->attribute_count, &attribute_count, sizeof attribute_count);
    memcpy(&r->attribute, &attribute, sizeof attribute);
    return r;
}

DOOR void reading_close(struct reading *r)
{
    free(r->calls);
    free(r->message_calls);
    free(r->messages);
    free(r->stack);
    free(r);
}

/* ---- calls */

static struct otf2_call *call_new(struct reading *r, const struct otf2_frame *f, uint64_t time,
                                  uint8_t kind)
{
    if (!reading_state_grow(r, (void **)&r->calls, r->count, &r->room, sizeof *r->calls))
        return NULL;
    struct otf2_call *const c = &r->calls[r->count++];

    *c = (struct otf2_call){.enter = time, .exit = time, .region = UNKNOWN, .site = UNKNOWN};
    if (f != NULL) {
        reading_state_describe(r, f, c);
        if ((f->call.given & 1u << ATTRIBUTE_OUTSIDE) == 0)
            c->outside = r->outside;
        else if (r->count - 1 > f->first) /* the attribute belongs to the first call of a Wait */
            c->outside = 0;
        r->outside = 0;
    }
    c->kind = kind;
    c->request = NEVER;
    return c;
}

/* ---- regions */

static int call_enter(struct reading *r, uint64_t time, const void *list, uint32_t region,
                      uint32_t context)
{
    reading_state_count(r, time);
    if (!reading_state_grow(r, (void **)&r->stack, r->depth, &r->deep, sizeof *r->stack))
        return FAILED;
    const struct otf2_frame *const outer = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
    struct otf2_frame *const f = &r->stack[r->depth];

    *f = (struct otf2_frame){.enter = time,
                             .first = r->count,
                             .first_message = r->message_count,
                             .region = region,
                             .context = context,
                             .class = region < r->class_count ? r->classes[region] : OTHER};
    if (f->class == FINALISING)
        r->facts.finalising = time;
    if (outer != NULL)
        f->site = outer->class == OTHER ? r->depth : outer->site;
    if (f->class != OTHER) {
        f->call = (struct otf2_call){.sent = NEVER,
                                     .received = NEVER,
                                     .site = UNKNOWN,
                                     .communicator = UNKNOWN,
                                     .root = UNKNOWN};
        f->call.operation = UINT8_MAX;
        if (r->first_attribute != UNKNOWN && list != NULL)
            reading_state_attributes(r, list, &f->call);
    }
    r->depth++;
    return SUCCESS;
}

static void call_end(struct reading *r, const struct otf2_frame *f, uint64_t time)
{
    const bool recorded = r->count > f->first;

    if (f->class == INITIALISING && r->facts.initialised == NEVER)
        r->facts.initialised = time;
    if ((f->class == COLLECTIVE || f->class == STARTING) && !recorded)
        call_new(r, f, time, KIND_CALL);
    for (size_t i = f->first; i < r->count; i++)
        if (r->calls[i].exit == NEVER && r->calls[i].enter == f->enter)
            r->calls[i].exit = time;
    reading_messages_end(r, f, time, recorded);
    if (f->class >= POINT_TO_POINT && f->class < CLASSES) {
        r->facts.spent[f->class - POINT_TO_POINT] += time - f->enter;
        /* in files of mpiprof, attributes have this time */
        if (f->class <= COMPLETING && !recorded && r->first_attribute == UNKNOWN)
            r->outside += time - f->enter;
    }
}

static int call_leave(struct reading *r, uint64_t time, uint32_t region)
{
    reading_state_count(r, time);
    size_t i = r->depth;

    while (i > 0 && r->stack[i - 1].region != region)
        i--;
    if (i == 0) /* never entered, because the file begins later */
        return SUCCESS;
    call_end(r, &r->stack[i - 1], time);
    r->depth = i - 1;
    return r->failed ? FAILED : SUCCESS;
}

static int event_store(struct reading *r, uint64_t time, uint8_t kind, uint8_t operation,
                       uint32_t communicator, uint32_t root, uint64_t sent, uint64_t received,
                       uint64_t request)
{
    reading_state_count(r, time);
    const struct otf2_frame *const f = reading_state_innermost(r);

    if (f == NULL ? kind != KIND_COMPLETION : f->class == IGNORED)
        return SUCCESS;
    struct otf2_call *const c = call_new(r, f, time, kind);

    if (c == NULL)
        return FAILED;
    c->operation = operation;
    c->communicator = communicator;
    c->root = root;
    c->sent = sent;
    c->received = received;
    c->request = request;
    c->recorded = 1;
    return SUCCESS;
}

/* ---- callbacks of OTF2's reader */

DOOR int reading_enter(EVENT, uint32_t region)
{
    return call_enter(user, time, attributes, region, UNKNOWN);
}

DOOR int reading_leave(EVENT, uint32_t region)
{
    return call_leave(user, time, region);
}

static uint32_t region_of(const struct reading *r, uint32_t context)
{
    return context < r->context_count ? r->regions[context] : UNKNOWN;
}

DOOR int reading_context_enter(EVENT, uint32_t context, UNUSED uint32_t unwound)
{
    return call_enter(user, time, attributes, region_of(user, context), context);
}

DOOR int reading_context_leave(EVENT, uint32_t context)
{
    return call_leave(user, time, region_of(user, context));
}

DOOR int reading_collective(EVENT, uint8_t operation, uint32_t communicator, uint32_t root,
                            uint64_t sent, uint64_t received)
{
    return event_store(user, time, KIND_CALL, operation, communicator, root, sent, received, NEVER);
}

DOOR int reading_request(EVENT, uint64_t request)
{
    struct reading *const r = user;
    const struct otf2_frame *const f = reading_state_innermost(r);

    if (f == NULL || (f->class != STARTING && f->class != RESTARTING)) {
        reading_state_count(r, time);
        return SUCCESS;
    }
    const bool start = f->class == RESTARTING && (f->call.given & 1u << ATTRIBUTE_START) != 0;
    const struct otf2_call t = f->call;

    return event_store(r, time, start ? KIND_START : KIND_CALL, UINT8_MAX, t.communicator, t.root,
                       t.sent, t.received, request);
}

DOOR int reading_complete(EVENT, uint8_t operation, uint32_t communicator, uint32_t root,
                          uint64_t sent, uint64_t received, uint64_t request)
{
    return event_store(user, time, KIND_COMPLETION, operation, communicator, root, sent, received,
                       request);
}

DOOR int reading_begin(EVENT, uint32_t name, UNUSED uint32_t count, UNUSED const uint32_t *list)
{
    struct reading *const r = user;

    r->facts.program = name;
    r->facts.began = 1;
    reading_state_count(r, time);
    return SUCCESS;
}

DOOR int reading_end(EVENT, UNUSED int64_t status)
{
    struct reading *const r = user;

    r->facts.ended = 1;
    reading_state_count(r, time);
    return SUCCESS;
}

DOOR int reading_unknown(EVENT)
{
    struct reading *const r = user;

    r->facts.unknown++;
    reading_state_count(r, time);
    return SUCCESS;
}

/* Suppress the printing of errors, which OTF2 also reports by its return value. */
DOOR int reading_error(UNUSED void *user, UNUSED const char *file, UNUSED uint64_t line,
                       UNUSED const char *function, int code)
{
    return code;
}

/* ---- results */

/* Add the collective calls of open regions. Returns the number of calls, or -1 without memory. */
DOOR int64_t reading_finish(struct reading *r)
{
    for (size_t i = 0; i < r->depth; i++) {
        const struct otf2_frame *const f = &r->stack[i];
        bool known = false;

        for (size_t k = f->first; k < r->count && !known; k++)
            known = r->calls[k].enter == f->enter && r->calls[k].region == f->region;
        if (!known && (f->class == COLLECTIVE || f->class == STARTING))
            call_new(r, f, f->enter, KIND_CALL);
        reading_messages_end(r, f, NEVER, known);
    }
    r->depth = 0;
    return r->failed ? -1 : (int64_t)r->count;
}

DOOR const struct otf2_call *reading_calls(const struct reading *r)
{
    return r->calls;
}

/* Return the calls on messages, in order of their end. */
DOOR const struct otf2_call *reading_message_calls(const struct reading *r, uint64_t *count)
{
    *count = r->message_call_count;
    return r->message_calls;
}

DOOR const struct otf2_message *reading_messages(const struct reading *r, uint64_t *count)
{
    *count = r->message_count;
    return r->messages;
}

DOOR void reading_facts(const struct reading *r, uint64_t *facts)
{
    memcpy(facts, &r->facts, sizeof r->facts);
}
