/* Checksums that let a reader detect damage (checksum.c). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "trace/event.h"

uint32_t check_chunk(const struct chunk_head *head, const struct chunk *chunk);
uint32_t check_bytes(const char *bytes, size_t length);
void check_close(struct text *t);
