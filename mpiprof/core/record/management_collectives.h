/* Collective calls that are recorded only (management_collectives.c). */
#pragma once
#include "record/call.h"
#include "record/unrecorded_time.h"

struct management_collective {
    struct call call;
    int64_t since;
    bool recorded;
};
struct turn management_collective_of(struct communicator *comm);
struct turn management_collective_making(const struct creation *c);
void management_collective_begin(struct management_collective *g, int operation, struct turn at,
                                 enum spent what, const void *address);
void management_collective_end(struct management_collective *g, int error, enum spent what);
