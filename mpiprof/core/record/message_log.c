/* Log of the messages: calls that took long, and sums of all calls.
 *
 * A thread writes these records to a second window, so that readers of collectives skip them. A
 * call's record follows the records of its parts. While a call is open, its records are behind the
 * used ones of the window, with exit_ns 0: they show the call of a rank that hangs or dies. When
 * the call ends, they become part of the log if it took long. Otherwise the next call replaces
 * them. message_log.h has the functions that each call needs.
 */
#include "record/message_log.h"

#include "base/recorder.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

static _Atomic int64_t logged_bytes;
atomic_bool message_log_is_full; /* messages and intervals have used their half of the log */

/* Return true if the log is full. The first time, this is noted. */
static bool is_full(void)
{
    if (atomic_load(&logged_bytes) + CHUNK_BYTES <= recorder.options.limit / 2 && !file_is_full())
        return false;
    if (!atomic_exchange(&message_log_is_full, true))
        file_write_note("messages and intervals have filled half of the log, so later messages are "
                        "only in the sums, and later intervals are missing; raise the limit with "
                        "--limit");
    return true;
}

/* Return `count` records behind the used ones, in a new or an emptied window if necessary, or NULL
 * if the log has no room for them. */
struct record *message_log_make_room(uint32_t count)
{
    struct thread *const t = &self;

    if (!record_messages_ensure() ||
        atomic_load_explicit(&message_log_is_full, memory_order_relaxed))
        return NULL;
    if (t->used_messages + count > CHUNK_RECORDS) {
        if (is_full() || !record_messages_append())
            return NULL;
        atomic_fetch_add(&logged_bytes, CHUNK_BYTES);
    }
    return &t->messages->records[t->used_messages];
}
