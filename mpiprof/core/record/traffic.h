/* The bytes that a rank sends and receives in a call: traffic.c. */
#pragma once
#include <stdint.h>

#include "base/arguments.h"

struct communicator;
struct exchange { /* which call it is */
    const struct communicator *comm;
    int operation, root;
};
void traffic(const struct exchange *c, const struct arguments *a, int64_t *sent, int64_t *received,
             uint32_t *flags);
