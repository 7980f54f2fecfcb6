/* Blocks of the user's send or receive buffer (block_layout.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "run/execution.h"

int64_t blocks_count(const struct arguments *a, const struct blocks *b, int i);
char *blocks_at(const struct arguments *a, const struct blocks *b, int i, int64_t extent);
bool blocks_are_direct(const struct execution *e, const struct blocks *b);
int64_t blocks_packed(const struct execution *e, const struct blocks *b);
int64_t blocks_move_one(struct execution *e, const struct blocks *b, int i, char *packed,
                        bool pack);
void blocks_move(struct execution *e, const struct blocks *b, char *packed, bool pack);
bool blocks_counted(struct execution *e, struct place *p);
