/* Handshake of all members of a communicator (bootstrap.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/common.h"
#include "base/symbol_lookup.h"

enum {
    RECORDING = 1, /* a trace folder exists */
    BEGUN = 2,     /* some ranks started earlier */
    NODES = 4,     /* the ranks are on several nodes */
    TAKEN = 8      /* an earlier program of this job has its trace in the folder */
};
struct verdict {
    int64_t together; /* all ranks have answered and may communicate */
    int64_t state;    /* the flags above */
    int64_t agreed;   /* all ranks select algorithms by the same rules */
    uint64_t job;
    char folder[PATH_BYTES];
};

bool bootstrap_hold(MPI_Comm comm, bool several, bool heads, bool begun, struct verdict *v);
bool bootstrap_harms(void);
void bootstrap_say_harmed(int64_t harmed, int64_t ranks);
void bootstrap_end(void);
