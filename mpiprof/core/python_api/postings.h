/* Times at which the other ranks of messages posted them, and the calls that wait for these. */
#pragma once
#include "python_api/messages.h"

/* Knowledge about the rank that a call can wait for because of a message. */
enum message_state {
    MESSAGE_NEVER,   /* it cannot */
    MESSAGE_KNOWN,   /* the posting call of the other rank is recorded */
    MESSAGE_UNKNOWN, /* the posting call has no record */
    MESSAGE_EAGER    /* a send that need not wait for its receiver */
};

/* Numbers of messages: with a partner; sends with a known time. */
enum { COUNT_PARTNERS, COUNT_SENDS };

/* The fields have the names and the order of message_waits.POSTINGS. */
struct postings {
    int64_t clock_error_ns;
    const uint8_t *is_synchronous, *is_partitioned; /* flags of the shapes */
    const uint8_t *is_test;                         /* flag of each call: it never blocks */
    int64_t *posted_ns;                             /* result: by the other rank */
    uint8_t *state;                                 /* result: enum message_state */
    int64_t *counts;                                /* results, at first 0 */
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
