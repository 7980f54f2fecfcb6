/* Messages of recorded calls, as the ranks at their two ends see them. */
#pragma once
#include "base/base.h"
#include "tracefile/event.h"

enum {
    NO_MESSAGE = -1,
    UNKNOWN_PEER = -1,
    /* Further flags of a message. The lower bits are those of its record (enum in event.h). */
    MESSAGE_RECEIVED = 32,
    /* The number may be that of another message (message_tables.py). Of a received message it is
     * PART_IN_ORDER: the number is not that of its tag. */
    MESSAGE_DOUBTFUL = 64
};

/* The fields have the names and the order of message_decoder.MESSAGE. */
struct message {
    int64_t posted_ns, bytes; /* bytes: -1 if unknown */
    int32_t call, partner;    /* rows; partner: as the other rank sees it, or NO_MESSAGE */
    uint32_t number;
    int32_t tag, shape; /* shape: of the call that posted it */
    uint8_t flags, unused[3];
};
_Static_assert(sizeof(struct message) == 40, "as message_decoder.MESSAGE");

/* The fields have the names and the order of message_rows.TABLE. */
struct message_table {
    int64_t count, ranks;
    struct message *messages;             /* in the order of their calls */
    const int32_t *communicators, *peers; /* of each shape */
    const int32_t *rank;                  /* of each call */
    const int64_t *enter_ns, *exit_ns;    /* of each call */
};

static inline bool message_is_received(const struct message *m)
{
    return (m->flags & MESSAGE_RECEIVED) != 0;
}

static inline bool message_is_complete(const struct message *m)
{
    return (m->flags & PART_COMPLETE) != 0;
}

static inline int32_t message_peer(const struct message_table *t, const struct message *m)
{
    return m->flags & PART_UNKNOWN ? UNKNOWN_PEER : t->peers[m->shape];
}

static inline int32_t message_rank(const struct message_table *t, const struct message *m)
{
    return t->rank[m->call];
}

static inline int32_t message_source(const struct message_table *t, const struct message *m)
{
    return message_is_received(m) ? message_peer(t, m) : message_rank(t, m);
}

static inline int32_t message_destination(const struct message_table *t, const struct message *m)
{
    return message_is_received(m) ? message_rank(t, m) : message_peer(t, m);
}

/* Returns true if the number of a message is certain. */
static inline bool message_is_sure(const struct message_table *t, const struct message *m)
{
    return (m->flags & (PART_UNSURE | MESSAGE_DOUBTFUL)) == 0 && message_peer(t, m) >= 0;
}
