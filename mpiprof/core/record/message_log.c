/* Log of the messages: records of calls, and of intervals between them.
 *
 * A thread writes these records to a second window, so that readers of collectives skip them. A
 * call's record follows the records of its parts. While a call is open, its records are behind the
 * used ones of the window, with exit_ns 0: they show the call of a rank that hangs or dies. When
 * the call ends, they become part of the log if it took long. Otherwise the next call replaces
 * them. message_log.h has the functions that each call needs.
 */
#include "record/message_log.h"

#include <string.h>

#include "base/recorder.h"
#include "record/message_epochs.h"
#include "record/record.h"
#include "tracefile/message_pack.h"
#include "tracefile/tracefile.h"

static _Atomic int64_t logged_bytes;
atomic_bool message_log_is_full; /* messages and intervals have used their half of the log */

/* Return true if the log is full. The first time, this is noted. */
static bool is_full(void)
{
    if (atomic_load(&logged_bytes) + CHUNK_BYTES <= recorder.options.limit / 2 && !file_is_full())
        return false;
    if (atomic_exchange(&message_log_is_full, true))
        return true;
    message_epoch_stop();
    file_write_note("messages and intervals have filled half of the log, so later messages are "
                    "only in the sums, and later intervals are missing; raise the limit with "
                    "--limit");
    return true;
}

/* ---- full windows, packed into another chunk (message_pack.h) */

/* Start to fill a chunk with packed windows, or to fill it again. */
static void pack_restart(struct message_pack *p)
{
    struct chunk_head *const head = &p->chunk->head;

    head->packed = 0; /* until the first window is packed, readers ignore the chunk */
    atomic_thread_fence(memory_order_release);
    head->first_window = self.messages->head.serial;
    message_pack_reset(p);
}

/* Return the packer of this thread, or NULL if memory or the log is insufficient. */
static struct message_pack *pack_ensure(void)
{
    if (self.pack != NULL)
        return self.pack;
    struct message_pack *const p = memory_allocate(sizeof *p);

    if (p == NULL)
        return NULL;
    p->chunk = file_window_create(self.number, CONTENT_PACKED);
    if (p->chunk == NULL) {
        memory_free(p);
        return NULL;
    }
    self.pack = p;
    pack_restart(p);
    return p;
}

/* Pack this thread's window, and clear it. Returns false if the chunk has too little room. A crash
 * loses nothing: readers ignore the window while the chunk counts it, too. */
static bool window_pack(struct message_pack *p)
{
    struct chunk_head *const head = &p->chunk->head;
    const uint32_t used = (uint32_t)head->packed;
    char *const bytes = (char *)p->chunk->records;
    const int64_t added = message_pack_add(p, self.messages->records, self.used_messages,
                                           bytes + used, PACK_ROOM - (int64_t)used);

    if (added < 0)
        return false;
    message_epoch_count(self.used_messages, added);
    atomic_thread_fence(memory_order_release);
    __atomic_store_n(&head->packed, head->packed + ((int64_t)1 << 32) + added, __ATOMIC_RELEASE);
    record_window_clear(self.messages, &self.used_messages);
    return true;
}

/* Append a chunk to the log. */
static bool chunk_append(struct chunk *c, uint32_t *used)
{
    if (is_full() || !record_window_append(c, used))
        return false;
    atomic_fetch_add(&logged_bytes, CHUNK_BYTES);
    return true;
}

/* Empty this thread's full window. Returns false if the log has no room for its contents. */
static bool window_empty(void)
{
    struct message_pack *const p = pack_ensure();
    struct record *const all = self.messages->records;
    uint32_t used;

    if (p != NULL) {
        if (window_pack(p))
            return true;
        if (p->chunk->head.packed != 0 && !chunk_append(p->chunk, &used))
            return false;
        pack_restart(p);
        if (window_pack(p))
            return true;
        pack_restart(p);
    }
    /* The messages of a call that was not logged would become part of the next chunk's first call. */
    memset(&all[self.used_messages], 0, (CHUNK_RECORDS - self.used_messages) * sizeof *all);
    return chunk_append(self.messages, &self.used_messages);
}

/* Return `count` records behind the used ones, in a new or an emptied window if necessary, or NULL
 * if the log has no room for them. */
struct record *message_log_make_room(uint32_t count)
{
    struct thread *const t = &self;

    if (!record_messages_ensure() ||
        atomic_load_explicit(&message_log_is_full, memory_order_relaxed))
        return NULL;
    if (t->used_messages + count > CHUNK_RECORDS && !window_empty())
        return NULL;
    return &t->messages->records[t->used_messages];
}

/* Log a call without its messages: it has failed, or has started, cancelled or freed requests. */
void message_log_plain(const struct call_shape *shape, enum kind kind, int64_t enter_ns,
                       int64_t now)
{
    struct record *const r = message_is_logged(enter_ns, now) ? message_log_records(0) : NULL;

    if (r == NULL)
        return;
    message_log_call(r, shape, 0);
    message_log_close(r, 0, kind, enter_ns, now);
}
