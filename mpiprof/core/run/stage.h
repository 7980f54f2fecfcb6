/* The user's buffers in the layout that a schedule requires (pack_buffers.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "run/execution.h"

void stage_start(void);
int64_t stage_sure(const struct algorithm *a, const struct execution *e);
bool stage_has_memory(struct execution *e);
void stage_begin(struct execution *e);
void stage_end(struct execution *e);
void stage_lacks(struct execution *e, const char *at);
struct place stage_place(const struct execution *e, const struct step *s, int buffer,
                         int64_t offset, int block);
