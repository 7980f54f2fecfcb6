/* Operands of reductions (reduce_buffers.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "run/execution.h"

/* A rank's vectors. Only this rank knows which of them must be copied: any member may call a
 * reduce_scatter in place. */
struct vectors {
    char *in, *out;
    bool gets, in_place, from_device, to_device, kept;
};
struct vectors vectors_of(const struct execution *e);
int64_t vectors_bytes(const struct execution *e, int64_t bytes);
char *vectors_scratch(const struct execution *e, int64_t bytes);
int64_t vectors_given(const struct execution *e);
int64_t vectors_got(const struct execution *e);
void vectors_copy(struct execution *e, char *to, char *from, int64_t whole, bool device);
