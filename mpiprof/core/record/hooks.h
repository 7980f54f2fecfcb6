/* What the recording tells the layers above it: hooks.c. */
#pragma once
#include <stdbool.h>

#include "base/native.h"

struct call;
struct communicator;
struct site;

/* Filled by lifecycle.c before anything is recorded, and never changed after. */
struct hooks {
    void (*ended)(struct call *c); /* a call that might have used the private communicator has */
    void (*freed)(struct communicator *c);     /* by all its members */
    void (*forgotten)(struct communicator *c); /* its private communicator is about to go */
    void (*inherited)(struct communicator *child, const struct communicator *parent);
    void (*site_met)(struct site *s, const char *frames); /* a new one; under recorder.lock */
    bool (*group_created)(MPI_Comm comm); /* Sessions; whether the members switch alike */
};
extern struct hooks hooks;
