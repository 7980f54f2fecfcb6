/* The user's buffers in the layout that a schedule requires (pack_buffers.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "executor/execution.h"

void pack_buffer_start(void);
int64_t pack_buffer_sure(const struct algorithm *a, const struct execution *e);
bool pack_buffer_has_memory(struct execution *e);
void pack_buffer_begin(struct execution *e);
void pack_buffer_end(struct execution *e);
void pack_buffer_lacks(struct execution *e, const char *at);
struct place pack_buffer_place(const struct execution *e, const struct step *s, int buffer,
                               int64_t offset, int block);
