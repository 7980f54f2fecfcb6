/* Pending nonblocking and persistent collectives (request.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

struct call;
struct request {
    struct request *next, *last; /* last: of the list, valid in its first entry */
    uint64_t handle, identity;
    uint32_t sequence, shape;
    int64_t starts;
    bool persistent, active, sampled, held;
};
void request_add(const struct call *c, MPI_Request handle);
struct request *request_take(MPI_Request handle);
void request_remove(struct request *r);
