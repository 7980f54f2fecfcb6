/* Calls of collectives, from their entry to their exit: call.c. The hot path. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "base/recorder.h"
#include "record/comm.h"
#include "record/signature.h"
#include "record/thread.h"

struct key;
struct call {
    struct communicator *comm;
    struct signatures *signatures;
    struct recent *recent;
    struct record *record;
    struct site *site;
    MPI_Comm handle;
    const char *algorithm; /* with its parameters; NULL: the library's own */
    const void *address;
    int operation, root;
    uint32_t sequence, shape;
    int64_t begin_ns, enter_ns, exit_ns;
    bool counted, wide;
    bool refused; /* by the library's check of its arguments: it has taken part in nothing */
    uint32_t kin; /* in an extension: which of many communicators alike; 0: none */
    const struct signature *expected; /* the record's, from what the arguments say by themselves */
    bool complete;                    /* of these: it is the call's own, bytes and all */
    bool settled;    /* an error handler has been asked: what follows from the error is done */
    bool running;    /* an algorithm of ours */
    struct key *key; /* auto.c: its statistics are wanted */
    bool inside;     /* select.c: the call may use the private communicator */
    bool watched;    /* of these: not switched, but looked at */
    uint8_t choice, candidate, planned;
};

bool call_begin_slow(struct call *c, int operation, MPI_Comm comm, int root, const void *address);
void call_begin_counted(struct call *c, int operation, struct communicator *comm, uint32_t sequence,
                        const void *address);
bool call_end(struct call *c, int error);
void call_failed(struct call *c, int error);
bool call_within(const void *here);
void call_traffic(struct call *c, const struct arguments *a);
void call_leave(struct call *c);
const struct site *call_site(const struct call *c); /* recorded or not */

/* ---- the first steps of every wrapper */

void call_expect_recorded(struct call *c, const struct arguments *a);
static inline void call_expect(struct call *c, const struct arguments *a)
{
    if (c->record != NULL)
        call_expect_recorded(c, a);
}

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
