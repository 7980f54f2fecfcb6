/* Records of message calls and their parts in a thread's window of messages (message_log.c). */
#pragma once
#include "base/base.h"
#include "record/call.h"
#include "record/record.h"
#include "tracefile/event.h"

/* ---- parts of a call: the messages that it sends, receives or completes */

struct message_part {
    const struct call_shape *shape; /* of the call that posted it, with its peer */
    int64_t posted_ns, bytes;       /* bytes: -1 if unknown */
    uint32_t number;
    int tag;
    bool received;
    uint8_t flags;
};

/* ---- records behind the used ones of the window, and records that are part of the log
 *
 * The caller has called record_check since the last native call, as function_enter and spent_add
 * do. */

enum { MOST_PARTS = 256 };
extern atomic_bool message_log_is_full;
struct record *message_log_make_room(uint32_t count);
void message_log_plain(const struct call_shape *shape, enum kind kind, int64_t enter_ns,
                       int64_t now);

/* Return the records for a call and its parts behind the used records, or NULL if the log has no
 * room for them. */
static inline struct record *message_log_records(int parts)
{
    const uint32_t count = (uint32_t)parts + 1;
    struct record *r;

    if (self.messages != NULL && self.used_messages + count <= CHUNK_RECORDS &&
        !atomic_load_explicit(&message_log_is_full, memory_order_relaxed))
        r = &self.messages->records[self.used_messages];
    else
        r = message_log_make_room(count);
    if (r != NULL)
        r[parts].kind = KIND_empty;
    return r;
}

static inline void message_log_part(struct record *r, const struct message_part *p)
{
    *r = (struct record){.enter_ns = p->posted_ns,
                         .exit_ns = p->bytes,
                         .sequence = p->number,
                         .shape = p->shape->id,
                         .outside_ns = (uint32_t)p->tag,
                         .thread = (uint16_t)self.number,
                         .kind = p->received ? KIND_received : KIND_sent,
                         .choice = p->flags};
}

/* Write a call behind its parts. `all` counts the parts that were left out, too. The record becomes
 * valid when it is published. */
static inline void message_log_call(struct record *r, const struct call_shape *shape, int all)
{
    *r = (struct record){
        .sequence = (uint32_t)all, .shape = shape->id, .thread = (uint16_t)self.number};
}

/* Publish a call that is open. The next call replaces it. */
static inline void message_log_open(struct record *r, enum kind kind, int64_t enter_ns)
{
    r->enter_ns = enter_ns;
    record_publish(r, kind);
}

/* Publish a call that has ended, or an interval, as a part of the log. */
static inline void message_log_close(struct record *r, int parts, enum kind kind, int64_t enter_ns,
                                     int64_t exit_ns)
{
    r->enter_ns = enter_ns;
    r->exit_ns = exit_ns;
    record_publish(r, kind);
    self.used_messages += (uint32_t)parts + 1;
}

/* Remove an open call that is not logged. Readers ignore parts without a call behind them. */
static inline void message_log_clear(int parts)
{
    const uint32_t call = self.used_messages + (uint32_t)parts;

    if (self.messages != NULL && call < CHUNK_RECORDS)
        self.messages->records[call].kind = KIND_empty;
}
