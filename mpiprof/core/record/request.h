/* Nonblocking and persistent collectives. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "record/communicator.h"

/* ---- pending nonblocking and persistent collectives (request.c) */

struct call;
struct request {
    struct request *next, *last; /* last: of the list, valid in its first entry */
    uint64_t handle, identity;
    uint32_t sequence, shape;
    int64_t start;
    bool persistent, active, sampled, reserved;
};
void request_add(const struct call *c, MPI_Request handle);
struct request *request_reserve(MPI_Request handle);
void request_remove(struct request *r);

/* ---- completion of recorded requests in Waits and Tests (request_completion.c) */

struct request_completion {
    struct request **entries;
    struct request *few[8];
    int64_t since;
    const void *handles;
    struct activity outer;
    uint64_t stamp;
    int count;
    bool fortran, outside;
};
void request_completion_begin(struct request_completion *w, int count, const void *handles,
                              bool fortran);
void request_completion_all(struct request_completion *w, int error, bool done);
void request_completion_one(struct request_completion *w, int error, bool done, const int *index,
                            int base);
void request_completion_some(struct request_completion *w, int error, const int *count,
                             const int *indices, int base);
void request_completion_seen(struct request_completion *w, int error, bool done);
void request_completion_start(struct request_completion *w, int error);
void request_completion_free(struct request_completion *w, int error);
void request_completion_failed(struct request_completion *w);
