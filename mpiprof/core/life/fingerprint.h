/* By what this process may come to another choice than the next one: fingerprint.c. */
#pragma once
#include <stdint.h>

int64_t fingerprint(void);
