/* State of a collective call, from entry to exit. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/call_shape.h"
#include "record/comm.h"
#include "record/thread.h"

struct key;
struct own_algorithm;
struct call {
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
    bool counted, wide;
    bool refused; /* by the library's argument check: the call has taken part in nothing */
    int64_t kin;  /* extension value: number among equivalent communicators; 0 if none */
    const struct call_shape *expected; /* shape from arguments that need no library call */
    bool complete;                     /* `expected` is exact, including the bytes */
    bool unlogged;                     /* paused, not sampled, or on an unrecorded communicator */
    bool settled; /* an error handler was called; the error is already processed */
    bool running; /* the call runs on a schedule of mpiprof */
    const struct creation *creation; /* the communicator, window or file that it creates */
    const struct own_algorithm *own; /* library_algorithm.c: the requested algorithm */
    MPI_Comm on;                     /* communicator for `own`, if not that of the call */
    int on_fortran;
    struct key *key; /* auto.c: the key to collect statistics for */
    bool inside;     /* select.c: the call may use the private communicator */
    bool watched;    /* may use it for statistics, but keeps the native algorithm */
    uint8_t choice, candidate, planned;
};
