/* Bytes and types of a call (byte_counts.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"

struct communicator;
struct exchange { /* identifies the call */
    const struct communicator *comm;
    int operation, root;
};
struct moved {
    int64_t sent, received;
    uint32_t flags;
    bool accepted;                /* by the library: all significant arguments may be read */
    bool unknown;                 /* if true, sent and received are undefined */
    const char *type, *reduction; /* predefined names, or NULL */
};
void byte_counts(const struct exchange *c, const struct arguments *a, struct moved *m);
