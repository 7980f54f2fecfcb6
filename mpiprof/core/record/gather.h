/* Collective calls that are recorded only (management_collectives.c). */
#pragma once
#include "record/call.h"
#include "record/outside.h"

struct gathering {
    struct call call;
    int64_t since;
    bool recorded;
};
struct turn gathering_of(struct communicator *comm);
struct turn gathering_making(const struct creation *c);
void gathering_begin(struct gathering *g, int operation, struct turn at, enum spent what,
                     const void *address);
void gathering_end(struct gathering *g, int error, enum spent what);
