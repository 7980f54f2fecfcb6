/* A call of a collective: what its thread knows of it, from entry to exit. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/comm.h"
#include "record/signature.h"
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
    const char *algorithm; /* with its parameters; NULL: the library's own */
    const void *address;
    int operation, root;
    uint32_t sequence, shape;
    int64_t begin_ns, enter_ns, exit_ns;
    bool counted, wide;
    bool refused; /* by the library's check of its arguments: it has taken part in nothing */
    int64_t kin;  /* in an extension: which of many communicators alike; 0: none */
    const struct signature *expected; /* the record's, from what the arguments say by themselves */
    bool complete;                    /* of these: it is the call's own, bytes and all */
    bool unlogged; /* paused, left out of the sample, or on a communicator without records */
    bool settled;  /* an error handler has been asked: what follows from the error is done */
    bool running;  /* an algorithm of ours */
    const struct creation *creation; /* the communicator, window or file that it makes */
    const struct own_algorithm *own; /* forced.c: of the library's, that it has been told */
    MPI_Comm on;                     /* of these: where, if not on the call's own */
    int on_fortran;
    struct key *key; /* auto.c: its statistics are wanted */
    bool inside;     /* select.c: the call may use the private communicator */
    bool watched;    /* of these: not switched, but looked at */
    uint8_t choice, candidate, planned;
};
