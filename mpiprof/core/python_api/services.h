/* Ranks that serve messages from any source: their events in blocks, one for each message.
 *
 *     server   | recv from any | send to 3 | recv of 3 || recv from any | send to 1 | ...
 *                block for a message of rank 3         || block for a message of rank 1
 *
 * A block begins with the receive from any source and contains the following messages with the same
 * rank only. Consecutive blocks are a stretch, in which the order of the blocks may change. */
#pragma once
#include "base/base.h"

enum { NO_EVENT = -1, NO_BLOCK = -1 };

/* Events by rank and time, from any origin of time. The fields have the names and the order of
 * account/replay.EVENTS. */
struct service_events {
    int64_t ranks;
    const int64_t *first;      /* event of each rank, and the number of all events */
    const int32_t *rank;       /* of each event */
    const int64_t *dependence; /* as replay.c describes */
    const double *time_ns, *gap_ns;
    const int64_t *other;       /* event at the other end of a message of two ranks, or NO_EVENT */
    const uint8_t *is_from_any; /* true if the rank continues with a message from any source */
};

/* The fields have the names and the order of account/replay.BLOCKS. */
struct service_blocks {
    int64_t *begin, *end; /* events of each block */
    int64_t *stretch;     /* first block of its stretch */
    int64_t *stretch_end; /* of each first block: the block after the stretch */
    double *entry_ns;     /* recorded begin of each block */
    double *arrival_ns;   /* of its message, and of all messages that its stretch served before */
    int64_t *beginning;   /* of each event: the block that begins there, or NO_BLOCK */
    int64_t *served;      /* of each event: the block for the message sent there, or NO_BLOCK */
};

static inline bool is_source(const struct service_events *s, int64_t event)
{
    return s->dependence[event] >= 0;
}

static inline int64_t dependence_number(const struct service_events *s, int64_t event)
{
    return is_source(s, event) ? s->dependence[event] : -1 - s->dependence[event];
}

/* Returns the time at which a rank enters the call of an event that depends on others. */
static inline double entry_time(const struct service_events *s, int64_t event)
{
    const double wait = s->gap_ns[event] > 0 ? s->gap_ns[event] : 0;

    return s->time_ns[event] - (is_source(s, event) ? 0 : wait);
}
