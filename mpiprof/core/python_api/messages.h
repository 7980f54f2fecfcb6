/* Table of the messages of recorded calls. */
#pragma once
#include "base/base.h"

/* Knowledge about the rank that a call can wait for because of a message. */
enum message_state {
    MESSAGE_NEVER, /* it cannot */
    MESSAGE_KNOWN, /* the posting call of the other rank is recorded */
    MESSAGE_UNKNOWN,
    MESSAGE_EAGER /* a send that need not wait for its receiver */
};

/* The fields have the names and the order of message_waits.TABLE. */
struct message_table {
    int64_t count, ranks, clock_error_ns;
    const int64_t *call;
    const int32_t *rank, *communicator, *source, *destination;
    const int64_t *number, *bytes, *own_posted_ns, *partner;
    const uint8_t *received, *complete, *sure;
    const int64_t *enter_ns, *exit_ns; /* of each call */
    const uint8_t *is_synchronous;     /* of each call: a synchronous send */
    int64_t *posted_ns, *since_ns;     /* results: by the other rank */
    uint8_t *state;                    /* result: enum message_state */
};

/* Wait states. The order is that of message_waits.STATES. */
enum { WAIT_LATE_SENDER, WAIT_WRONG_ORDER, WAIT_LATE_RECEIVER };

/* Calls that wait for a message. The fields have the names and the order of message_waits.WAITS. */
struct waits {
    int64_t *call, *message, *rank, *awaited;
    uint8_t *state;
    int64_t *begin_ns, *until_ns, *wait_ns;
    int64_t *count; /* at first 0 */
};

static inline int32_t message_peer(const struct message_table *t, int64_t row)
{
    return t->received[row] ? t->source[row] : t->destination[row];
}
