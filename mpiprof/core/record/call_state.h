/* State of a collective call, from entry to exit. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/call_shape.h"
#include "record/comm.h"
#include "record/thread.h"

struct key;
struct own_algorithm;

/* Use of the private communicator, and the end of the call. */
enum call_state {
    CALL_NATIVE,    /* no use: the library's routine, without statistics */
    CALL_OBSERVED,  /* the library's routine, with statistics */
    CALL_SELECTED,  /* may run on a selected algorithm */
    CALL_SCHEDULED, /* a schedule of mpiprof is running: errors in it are not errors of the call */
    CALL_SETTLED    /* the result is recorded: later errors belong to other calls */
};
struct call {
    enum call_state state;
    struct communicator *comm;
    struct signatures *signatures;
    struct recent *recent;
    struct record *record;
    struct site *site;
    MPI_Comm handle;
    const char *algorithm; /* with its parameters; NULL for the library's default */
    const void *address;
    int operation, root;
    uint32_t sequence, shape;
    int64_t begin_ns, enter_ns, exit_ns;
    uint32_t extensions;               /* extension records before `record` */
    const struct call_shape *expected; /* shape from arguments that need no library call */
    bool expected_is_exact;            /* including the bytes */
    const struct creation *creation;   /* the communicator, window or file that it creates */
    const struct own_algorithm *own;   /* library_algorithm.c: the requested algorithm */
    MPI_Comm on;                       /* communicator for `own`, if not that of the call */
    int on_fortran;
    struct key *key; /* auto.c: the key to collect statistics for */
    uint8_t choice, candidate, planned;
};

/* Return true if bytes are stored in two extension records, because the shapes are too many. */
static inline bool call_extends_bytes(const struct call *c)
{
    return c->extensions >= 2;
}
