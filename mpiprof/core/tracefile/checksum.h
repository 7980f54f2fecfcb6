/* Checksums that let a reader detect damage (checksum.c). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "tracefile/event.h"

uint32_t checksum_chunk(const struct chunk_head *head, const struct chunk *chunk);
uint32_t checksum_bytes(const char *bytes, size_t length);
void checksum_close(struct text *t);
