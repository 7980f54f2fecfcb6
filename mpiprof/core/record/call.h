/* Recording of collective calls from entry to exit: the hot path (call.c). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/recorder.h"
#include "record/call_state.h"
#include "record/thread.h"

struct turn { /* communicator and sequence number of a call; comm is NULL if unknown */
    struct communicator *comm;
    const struct creation *creation; /* NULL if the call creates no communicator, window or file */
    uint32_t sequence;
};

bool call_begin_slow(struct call *c, int operation, MPI_Comm comm, int root, const void *address);
void call_begin_counted(struct call *c, int operation, const struct turn *at, const void *address);
bool call_end(struct call *c, int error);
void call_failed(struct call *c, int error);
bool call_within(const void *here);
void call_leave(struct call *c);
const struct site *call_site(const struct call *c); /* also for calls that are not recorded */

/* ---- entry code of every wrapper */

static inline bool call_begin(struct call *c, int operation, MPI_Comm comm, int root,
                              const void *address)
{
    if (!atomic_load_explicit(&recorder.active, memory_order_relaxed) ||
        (self.call != NULL && call_within(__builtin_frame_address(0))))
        return false;
    return call_begin_slow(c, operation, comm, root, address);
}

/* A Fortran layer that calls C names: the call site is the layer's caller. */
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
