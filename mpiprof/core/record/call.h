/* Calls of collectives, from their entry to their exit: call.c. The hot path. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/recorder.h"
#include "record/entry.h"
#include "record/thread.h"

struct turn { /* whose call it is, and its number there; NULL: nobody's that is known */
    struct communicator *comm;
    const struct creation *creation; /* NULL: the call makes nothing */
    uint32_t sequence;
};

bool call_begin_slow(struct call *c, int operation, MPI_Comm comm, int root, const void *address);
void call_begin_counted(struct call *c, int operation, const struct turn *at, const void *address);
bool call_end(struct call *c, int error);
void call_failed(struct call *c, int error);
bool call_within(const void *here);
void call_leave(struct call *c);
const struct site *call_site(const struct call *c); /* recorded or not */

/* ---- the first steps of every wrapper */

static inline bool call_begin(struct call *c, int operation, MPI_Comm comm, int root,
                              const void *address)
{
    if (!atomic_load_explicit(&recorder.active, memory_order_relaxed) ||
        (self.call != NULL && call_within(__builtin_frame_address(0))))
        return false;
    return call_begin_slow(c, operation, comm, root, address);
}

/* A Fortran layer that calls C names: the site is its caller. */
static inline const void *caller_enter(const void *address)
{
    const void *const outer = self.caller;

    if (outer == NULL)
        self.caller = address;
    return outer;
}

static inline void caller_leave(const void *outer)
{
    self.caller = outer;
}
