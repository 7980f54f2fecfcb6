/* The bytes that a rank sends and receives in a call, and what they are: traffic.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"

struct communicator;
struct exchange { /* which call it is */
    const struct communicator *comm;
    int operation, root;
};
struct moved {
    int64_t sent, received;
    uint32_t flags;
    bool accepted;                /* by the library: all that is significant may be read */
    bool unknown;                 /* so that sent and received say nothing */
    const char *type, *reduction; /* NULL: none that is predefined */
};
void traffic(const struct exchange *c, const struct arguments *a, struct moved *m);
