/* Hash functions (hash.c). */
#pragma once
#include <stdint.h>

uint64_t hash_mix(uint64_t a, uint64_t b);
/* length < 0 hashes up to the terminating zero */
uint64_t hash_text(uint64_t h, const char *text, int length);
