/* Scratch memory on which the members of a communicator agree (scratch.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/comm.h"
#include "schedule/schedule.h"

/* Bytes that each region has from the start, if memory is available. */
enum { SCRATCH_SURE = 1 << 16 };

struct scratch_note {
    const struct algorithm *algorithm; /* the omitted algorithm with the largest requirement */
    int64_t bytes, limit;
    uint64_t times;
};
int64_t scratch_piece(int64_t bytes);
bool scratch_fits(const struct communicator *k, int64_t bytes);
void scratch_left_out(const struct communicator *k, const struct algorithm *a, int64_t bytes);
struct scratch_note scratch_noted(void);
void scratch_begin(struct communicator *k);
bool scratch_had(struct communicator *k, int64_t bytes);
bool scratch_asked(struct communicator *k, int64_t *bytes);
void *scratch_take(struct communicator *k, int64_t bytes);
void scratch_give_back(struct communicator *k);
void scratch_free(struct communicator *k);
