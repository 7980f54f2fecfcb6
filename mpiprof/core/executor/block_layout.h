/* Blocks of the user's send or receive buffer (block_layout.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "executor/execution.h"

int64_t block_layout_count(const struct arguments *a, const struct blocks *b, int i);
char *block_layout_at(const struct arguments *a, const struct blocks *b, int i, int64_t extent);
bool block_layout_are_direct(const struct execution *e, const struct blocks *b);
int64_t block_layout_packed(const struct execution *e, const struct blocks *b);
int64_t block_layout_move_one(struct execution *e, const struct blocks *b, int i, char *packed,
                              bool pack);
void block_layout_move(struct execution *e, const struct blocks *b, char *packed, bool pack);
bool block_layout_counted(struct execution *e, struct place *p);
