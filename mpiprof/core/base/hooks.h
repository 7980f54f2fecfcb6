/* Callbacks from recording to the layers above it (hooks.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/symbol_lookup.h"

struct call;
struct communicator;
struct site;

/* Set by lifecycle.c before anything is recorded, and never changed afterwards. */
struct hooks {
    void (*ended)(struct call *c, bool observed); /* a call with use of the private communicator */
    void (*freed)(struct communicator *c);        /* all members have freed it */
    void (*forgotten)(struct communicator *c); /* its private communicator is about to be freed */
    void (*inherited)(struct communicator *child, const struct communicator *parent);
    void (*site_met)(struct site *s, const char *frames); /* new site; under recorder.lock */
    size_t comm_state_bytes; /* of executor/comm_state.h, behind each communicator's entry */
    bool (*group_created)(MPI_Comm comm); /* Sessions; true if selections agree */
};
extern struct hooks hooks;
