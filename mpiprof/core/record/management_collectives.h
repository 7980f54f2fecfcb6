/* Collective calls that are recorded only (management_collectives.c). */
#pragma once
#include "record/call.h"
#include "record/communicator.h"
#include "record/local_call.h"
#include "record/record.h"

struct management_collective {
    bool recorded; /* as a call of all members; otherwise by call site only */
    union {
        struct call call;
        struct message_call local;
    };
};
struct call_order management_collective_order(struct communicator *comm);
struct call_order management_collective_creation_order(const struct creation *c);
void management_collective_begin(struct management_collective *g, int operation,
                                 struct call_order at, enum spent what, const void *address);
void management_collective_end(struct management_collective *g, int error);
