/* Completion of recorded requests in Waits and Tests (request_completion.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"
#include "record/request.h"

struct watch {
    struct request **entries;
    struct request *few[8];
    int64_t since;
    const void *handles;
    struct watch *outer;
    uint64_t stamp, outer_stamp;
    int count;
    bool fortran, outside;
};
void watch_begin(struct watch *w, int count, const void *handles, bool fortran);
void watch_all(struct watch *w, int error, bool done);
void watch_one(struct watch *w, int error, bool done, const int *index, int base);
void watch_some(struct watch *w, int error, const int *count, const int *indices, int base);
void watch_seen(struct watch *w, int error, bool done);
void watch_start(struct watch *w, int error);
void watch_free(struct watch *w, int error);
void watch_failed(struct watch *w);
