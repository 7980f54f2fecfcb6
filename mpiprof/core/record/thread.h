/* What the recorder keeps of each thread: thread.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"
#include "trace/event.h"

struct communicator;
struct signature;
struct signatures;
struct site;

enum { RECENT = 8 };
struct given { /* arguments as they were given, to be compared only */
    int root;
    unsigned form; /* C or Fortran, large or not, what is in place */
    int64_t counts[2];
    uint64_t types[2], op;
};
struct recent { /* what was found for a call of this thread, by where it came from */
    const void *address, *caller;
    MPI_Comm handle;
    int operation;
    uint32_t generation;
    struct communicator *comm;
    struct site *native; /* NULL: not known by the address alone */
    struct signatures *signatures;
    struct given given; /* of the last call that was described by its arguments alone: */
    const struct signatures *described;
    const struct signature *signature;
};
struct thread {
    struct recent recent[RECENT];
    struct chunk *window;
    int64_t outside_ns, recorder_ns;
    const void *caller;
    /* What this thread is in; no more to be looked at than stack_holds() says: it may have left. */
    struct call *call;
    struct creation *creation;
    struct freeing *freeing;
    struct watch *watch;
    /* What stands in those three while it is what is pointed to: a frame that was left for good may
     * lie within one of now. 0: nothing is. */
    uint64_t creation_stamp, freeing_stamp, watch_stamp, stamps;
    uint32_t used, number, calls;
    bool refused;
    enum { BUS_UNKNOWN, BUS_OPEN, BUS_BLOCKED } bus; /* whether its mask blocks SIGBUS */
};
extern _Thread_local struct thread self;
