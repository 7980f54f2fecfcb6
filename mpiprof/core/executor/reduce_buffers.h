/* Operands of reductions (reduce_buffers.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "executor/execution.h"

/* A rank's vectors. Only this rank knows which of them must be copied: any member may call a
 * reduce_scatter in place. */
struct vectors {
    char *in, *out;
    bool gets, in_place, from_device, to_device, kept;
};
struct vectors reduce_buffer_of(const struct execution *e);
int64_t reduce_buffer_bytes(const struct execution *e, int64_t bytes);
char *reduce_buffer_scratch(const struct execution *e, int64_t bytes);
int64_t reduce_buffer_given(const struct execution *e);
int64_t reduce_buffer_got(const struct execution *e);
void reduce_buffer_copy(struct execution *e, char *to, char *from, int64_t whole, bool device);
