/* Hash of everything that affects the selection of algorithms (fingerprint.c). */
#pragma once
#include <stdint.h>

int64_t fingerprint(void);
