/* State of a reading: growing arrays, the stack of regions, and descriptions of calls. */
#include <stdlib.h>

#include "otf2/reading.h"

/* Make room for one more element. Returns false without memory. */
bool reading_state_grow(struct reading *r, void **array, size_t used, size_t *room, size_t size)
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

void reading_state_count(struct reading *r, uint64_t time)
{
    struct facts *const f = &r->facts;

    f->events++;
    if (f->first_time == NEVER)
        f->first_time = time;
    if (time > f->last_time)
        f->last_time = time;
}

/* Fill in a call that begins with a frame. */
void reading_state_describe(const struct reading *r, const struct otf2_frame *f,
                            struct otf2_call *c)
{
    *c = f->call;
    c->enter = f->enter;
    c->exit = NEVER;
    c->region = f->region;
    if (f->context != UNKNOWN)
        c->site = f->context;
    else if (f->site > 0)
        c->site = r->stack[f->site - 1].region;
}

void reading_state_attributes(struct reading *r, const void *list, struct otf2_call *c)
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
        case ATTRIBUTE_REGION: c->region = (uint32_t)value; break;
        case ATTRIBUTE_SITE: c->site = (uint32_t)value; break;
        default: break;
        }
    }
}

/* Return the innermost region if it is one of MPI, else NULL. */
const struct otf2_frame *reading_state_innermost(const struct reading *r)
{
    return r->depth > 0 && r->stack[r->depth - 1].class != OTHER ? &r->stack[r->depth - 1] : NULL;
}
