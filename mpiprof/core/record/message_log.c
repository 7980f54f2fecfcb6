/* Log of the messages: calls that took long, and sums of all calls.
 *
 * A thread writes these records to a second window, so that readers of collectives skip them. A
 * call's record follows the records of its parts. While a call is open, its records are behind the
 * used ones of the window, with exit_ns 0: they show the call of a rank that hangs or dies. When
 * the call ends, they become part of the log if it took long. Otherwise the next call replaces
 * them.
 */
#include "base/recorder.h"
#include "record/message.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

static _Atomic int64_t logged_bytes;
static atomic_bool full;

/* Return true if messages and intervals have used their half of the log. The first time, this is noted. */
static bool is_full(void)
{
    if (atomic_load(&logged_bytes) + CHUNK_BYTES <= recorder.options.limit / 2 && !file_is_full())
        return false;
    if (!atomic_exchange(&full, true))
        file_write_note("messages and intervals have filled half of the log, so later messages are "
                        "only in the sums, and later intervals are missing; raise the limit with "
                        "--limit");
    return true;
}

/* Return the records for a call and its parts behind the used records, or NULL if the log has no
 * room for them. */
struct record *message_log_records(int parts)
{
    struct thread *const t = &self;
    const uint32_t count = (uint32_t)parts + 1;

    record_check();
    if (!record_messages_ensure() || atomic_load_explicit(&full, memory_order_relaxed))
        return NULL;
    if (t->used_messages + count > CHUNK_RECORDS) {
        if (is_full() || !record_messages_append())
            return NULL;
        atomic_fetch_add(&logged_bytes, CHUNK_BYTES);
    }
    struct record *const r = &t->messages->records[t->used_messages];

    r[parts].kind = KIND_empty;
    return r;
}

void message_log_part(struct record *r, const struct message_part *p)
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
void message_log_call(struct record *r, const struct call_shape *shape, int all)
{
    *r = (struct record){
        .sequence = (uint32_t)all, .shape = shape->id, .thread = (uint16_t)self.number};
}

/* Publish a call that is open. The next call replaces it. */
void message_log_open(struct record *r, int64_t enter_ns)
{
    r->enter_ns = enter_ns;
    record_publish(r, KIND_message_call);
}

/* Publish a call that has ended, or an interval, as a part of the log. */
void message_log_close(struct record *r, int parts, enum kind kind, int64_t enter_ns,
                       int64_t exit_ns)
{
    r->enter_ns = enter_ns;
    r->exit_ns = exit_ns;
    record_publish(r, kind);
    self.used_messages += (uint32_t)parts + 1;
}

/* Remove the records of an open call that is not logged. */
void message_log_clear(int parts)
{
    const uint32_t records = (uint32_t)parts + 1;
    struct thread *const t = &self;

    record_check();
    if (t->messages == NULL || t->used_messages + records > CHUNK_RECORDS)
        return;
    for (uint32_t i = records; i-- > 0;)
        t->messages->records[t->used_messages + i].kind = KIND_empty;
}
