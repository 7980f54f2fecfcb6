/* The bytes that a rank sends and receives in a call: traffic.c. */
#pragma once
#include <stdint.h>

#include "base/arguments.h"

struct call;
void traffic(const struct call *c, const struct arguments *a, int64_t *sent, int64_t *received,
             uint32_t *flags);
