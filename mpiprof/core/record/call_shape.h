/* Call shapes: interned table rows that describe a call (call_shape.c). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "callsite/site.h"
#include "record/comm.h"
#include "tracefile/event.h"

struct call_shape {
    struct call_shape *next;
    struct record *summary;
    int64_t sent, received;
    const char *algorithm;
    const char *type, *reduction; /* predefined names; NULL for others, or if there is none */
    int root;
    uint32_t id, flags;
};
struct signatures { /* of one operation, communicator and call site, known at entry */
    struct call_shape base;
    struct call_shape *_Atomic list;
    const struct communicator *comm;
    const struct site *site;
    int operation, count;
};
enum { MOST_SHAPES = 64 }; /* with bytes, per group; beyond them records extend their bytes */
enum {
    FLAG_IN_PLACE = 1,
    FLAG_INTER = 2,
    FLAG_NONBLOCKING = 4,
    FLAG_PERSISTENT = 8,
    FLAG_ERROR = 16
};
struct signatures *call_shapes_find(int operation, const struct communicator *comm,
                                    const struct site *site);
struct call_shape *call_shape_find(struct signatures *f, const struct call_shape *wanted);

/* Return true if there may be no shape for another call, which adds one before and one after the
 * native routine. */
static inline bool call_shapes_are_many(const struct signatures *f)
{
    return f->count >= MOST_SHAPES - 1;
}
