/* Messages that a rank sends to itself (self_message.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "record/call.h"

struct own_block { /* one side of a message that a rank sends to itself */
    char *buffer;
    MPI_Datatype type;
    int64_t count, before; /* in elements: the block, and its offset in the buffer */
};
struct self_message_sides {
    struct own_block sent, received;
};
bool self_message_sides(const struct call *c, const struct arguments *a,
                        struct self_message_sides *own);
char *self_message_block_at(const struct own_block *b);
int64_t self_message_block_bytes(const struct own_block *b);
bool self_message_sizes_differ(const struct call *c, const struct arguments *a);
