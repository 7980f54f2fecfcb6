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
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "otf2/call.h"

enum { SUCCESS = 0, FAILED = 1 };

struct frame {
    uint64_t enter;
    size_t first; /* first call that was recorded while this was the innermost region */
    size_t site;  /* stack position + 1 of the innermost program region around it; 0 for none */
    uint32_t region;
    uint32_t context; /* UNKNOWN without a calling context */
    uint8_t class;
    struct call call; /* as far as attributes describe it */
};

struct facts { /* in the order of FACT_NAMES (formats/otf2/library.py) */
    uint64_t first_time, last_time, events, unknown;
    uint64_t began, ended; /* 1 after the event ProgramBegin or ProgramEnd */
    uint64_t program;      /* number of the program's name; UNKNOWN before ProgramBegin */
    uint64_t spent[CLASSES - POINT_TO_POINT]; /* ticks by class */
};

struct reading {
    struct call *calls;
    size_t count, room;
    struct frame *stack;
    size_t depth, deep;
    const uint8_t *classes;
    const uint32_t *regions; /* of calling contexts */
    uint32_t class_count, context_count;
    uint32_t first_attribute; /* UNKNOWN if the file has no attributes of mpiprof */
    uint64_t outside;
    struct facts facts;
    bool failed;
    uint32_t (*attribute_count)(const void *list);
    int (*attribute)(const void *list, uint32_t i, uint32_t *which, uint8_t *type, uint64_t *value);
};

#define QUOTE(type, name, format) #name ":" format " "

/* Return the names and types of a call's fields. */
DOOR const char *reading_layout(void)
{
    return CALL_FIELDS(QUOTE);
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
    r->facts.first_time = NEVER;
    r->facts.program = UNKNOWN;
    memcpy(&r->attribute_count, &attribute_count, sizeof attribute_count);
    memcpy(&r->attribute, &attribute, sizeof attribute);
    return r;
}

DOOR void reading_close(struct reading *r)
{
    free(r->calls);
    free(r->stack);
    free(r);
}

/* ---- growing arrays */

static bool array_grow(struct reading *r, void **array, size_t used, size_t *room, size_t size)
{
    if (used < *room)
        return true;
    const size_t more = *room < 1024 ? 1024 : 2 * *room;
    void *const got = realloc(*array, more * size);

    if (got == NULL) {
        r->failed = true;
        return false;
    }
    *array = got;
    *room = more;
    return true;
}

static struct call *call_new(struct reading *r, const struct frame *f, uint64_t time, uint8_t kind)
{
    if (!array_grow(r, (void **)&r->calls, r->count, &r->room, sizeof *r->calls))
        return NULL;
    struct call *const c = &r->calls[r->count++];

    *c = (struct call){.enter = time, .exit = time, .region = UNKNOWN, .site = UNKNOWN};
    if (f != NULL) {
        *c = f->call;
        c->enter = f->enter;
        c->exit = NEVER;
        c->region = f->region;
        if (f->context != UNKNOWN)
            c->site = f->context;
        else if (f->site > 0)
            c->site = r->stack[f->site - 1].region;
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

static void region_count(struct reading *r, uint64_t time)
{
    struct facts *const f = &r->facts;

    f->events++;
    if (f->first_time == NEVER)
        f->first_time = time;
    if (time > f->last_time)
        f->last_time = time;
}

static void attributes_read(struct reading *r, const void *list, struct call *c)
{
    const uint32_t count = r->attribute_count(list);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t which = 0;
        uint64_t value = 0;
        uint8_t type = 0;

        if (r->attribute(list, i, &which, &type, &value) != SUCCESS)
            continue;
        which -= r->first_attribute;
        if (which >= ATTRIBUTES)
            continue;
        c->given = (uint16_t)(c->given | 1u << which);
        switch (which) {
        case ATTRIBUTE_SEQUENCE: c->sequence = (uint32_t)value; break;
        case ATTRIBUTE_START: c->start = (uint32_t)value; break;
        case ATTRIBUTE_OUTSIDE: c->outside = value; break;
        case ATTRIBUTE_CHOICE: c->choice = (uint8_t)value; break;
        case ATTRIBUTE_COMMUNICATOR: c->communicator = (uint32_t)value; break;
        case ATTRIBUTE_ROOT: c->root = (uint32_t)value; break;
        case ATTRIBUTE_SENT: c->sent = value; break;
        case ATTRIBUTE_RECEIVED: c->received = value; break;
        default: break;
        }
    }
}

static int call_enter(struct reading *r, uint64_t time, const void *list, uint32_t region,
                      uint32_t context)
{
    region_count(r, time);
    if (!array_grow(r, (void **)&r->stack, r->depth, &r->deep, sizeof *r->stack))
        return FAILED;
    const struct frame *const outer = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
    struct frame *const f = &r->stack[r->depth];

    *f = (struct frame){.enter = time,
                        .first = r->count,
                        .region = region,
                        .context = context,
                        .class = region < r->class_count ? r->classes[region] : OTHER};
    if (outer != NULL)
        f->site = outer->class == OTHER ? r->depth : outer->site;
    if (f->class != OTHER) {
        f->call = (struct call){.sent = NEVER,
                                .received = NEVER,
                                .site = UNKNOWN,
                                .communicator = UNKNOWN,
                                .root = UNKNOWN};
        f->call.operation = UINT8_MAX;
        if (r->first_attribute != UNKNOWN && list != NULL)
            attributes_read(r, list, &f->call);
    }
    r->depth++;
    return SUCCESS;
}

static void call_end(struct reading *r, const struct frame *f, uint64_t time)
{
    const bool recorded = r->count > f->first;

    if ((f->class == COLLECTIVE || f->class == STARTING) && !recorded)
        call_new(r, f, time, KIND_CALL);
    for (size_t i = f->first; i < r->count; i++)
        if (r->calls[i].exit == NEVER && r->calls[i].enter == f->enter)
            r->calls[i].exit = time;
    if (f->class >= POINT_TO_POINT && f->class < CLASSES) {
        r->facts.spent[f->class - POINT_TO_POINT] += time - f->enter;
        if (f->class <= COMPLETING && !recorded)
            r->outside += time - f->enter;
    }
}

static int call_leave(struct reading *r, uint64_t time, uint32_t region)
{
    region_count(r, time);
    size_t i = r->depth;

    while (i > 0 && r->stack[i - 1].region != region)
        i--;
    if (i == 0) /* never entered, because the file begins later */
        return SUCCESS;
    call_end(r, &r->stack[i - 1], time);
    r->depth = i - 1;
    return r->failed ? FAILED : SUCCESS;
}

static const struct frame *innermost(const struct reading *r)
{
    return r->depth > 0 && r->stack[r->depth - 1].class != OTHER ? &r->stack[r->depth - 1] : NULL;
}

static int event_store(struct reading *r, uint64_t time, uint8_t kind, uint8_t operation,
                       uint32_t communicator, uint32_t root, uint64_t sent, uint64_t received,
                       uint64_t request)
{
    region_count(r, time);
    const struct frame *const f = innermost(r);

    if (f == NULL ? kind != KIND_COMPLETION : f->class == IGNORED)
        return SUCCESS;
    struct call *const c = call_new(r, f, time, kind);

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

#define UNUSED __attribute__((unused))
#define EVENT                                                                                      \
    UNUSED uint64_t location, uint64_t time, UNUSED uint64_t position, void *user,                 \
        UNUSED const void *attributes

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
    const struct frame *const f = innermost(r);

    if (f == NULL || (f->class != STARTING && f->class != RESTARTING)) {
        region_count(r, time);
        return SUCCESS;
    }
    const bool start = f->class == RESTARTING && (f->call.given & 1u << ATTRIBUTE_START) != 0;
    const struct call t = f->call;

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
    region_count(r, time);
    return SUCCESS;
}

DOOR int reading_end(EVENT, UNUSED int64_t status)
{
    struct reading *const r = user;

    r->facts.ended = 1;
    region_count(r, time);
    return SUCCESS;
}

DOOR int reading_unknown(EVENT)
{
    struct reading *const r = user;

    r->facts.unknown++;
    region_count(r, time);
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
        const struct frame *const f = &r->stack[i];
        bool known = false;

        for (size_t k = f->first; k < r->count && !known; k++)
            known = r->calls[k].enter == f->enter && r->calls[k].region == f->region;
        if (!known && (f->class == COLLECTIVE || f->class == STARTING))
            call_new(r, f, f->enter, KIND_CALL);
    }
    r->depth = 0;
    return r->failed ? -1 : (int64_t)r->count;
}

DOOR const struct call *reading_calls(const struct reading *r)
{
    return r->calls;
}

DOOR void reading_facts(const struct reading *r, uint64_t *facts)
{
    memcpy(facts, &r->facts, sizeof r->facts);
}
