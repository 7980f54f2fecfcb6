/* Per-thread state of the recorder (thread.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "tracefile/event.h"

struct communicator;
struct call_shape;
struct signatures;
struct site;

enum { RECENT = 8 };
struct given { /* arguments of a call, only for comparison */
    int root;
    unsigned form; /* C or Fortran, large counts, in-place sides */
    int64_t counts[2];
    uint64_t types[2], op;
};
struct recent { /* lookup results of the thread's last calls, by return address */
    const void *address, *caller;
    MPI_Comm handle;
    int operation;
    uint32_t generation;
    struct communicator *comm;
    struct site *native; /* NULL if the address alone does not determine the site */
    struct signatures *signatures;
    struct given given; /* of the last call described by its arguments alone, with its results: */
    const struct signatures *described;
    const struct call_shape *signature;
};
struct thread {
    struct recent recent[RECENT];
    struct chunk *window;
    int64_t outside_ns, recorder_ns;
    const void *caller;
    /* The active calls of this thread. They may have been abandoned: check with unwind_holds()
     * first. */
    struct call *call;
    struct creation *creation;
    struct freeing *freeing;
    struct request_completion *watch;
    /* Stamps of these three pointers while their objects are valid, or 0. An abandoned object may
     * be inside a current frame, so unwind_holds() alone is not enough. */
    uint64_t creation_stamp, freeing_stamp, watch_stamp, stamps;
    uint32_t used, number, calls;
    bool refused;
    enum { BUS_UNKNOWN, BUS_OPEN, BUS_BLOCKED } bus; /* state of SIGBUS in the thread's mask */
};
extern _Thread_local struct thread self;
