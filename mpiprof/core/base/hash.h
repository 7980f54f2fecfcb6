/* Numbers that stand for others: hash.c. */
#pragma once
#include <stdint.h>

uint64_t hash_mix(uint64_t a, uint64_t b);
uint64_t hash_text(uint64_t h, const char *text, int length); /* < 0: to its end */
