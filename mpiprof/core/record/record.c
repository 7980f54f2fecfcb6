/* Records and the windows that they are written to.
 *
 * Each thread fills its own window (file.c), so that no thread waits for another.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/call.h"
#include "record/interval_counters.h"
#include "record/record.h"
#include "tracefile/message_pack.h"
#include "tracefile/tracefile.h"

_Thread_local struct thread self;

static pthread_key_t thread_key;
static bool thread_key_made; /* if false, thread_key is 0, which may belong to other code */
struct free_window {         /* windows of a thread that has ended */
    struct free_window *next;
    struct chunk *window, *messages;
    struct message_pack *pack;
    uint32_t used_records, used_messages;
};
static struct free_window *free_windows;   /* protected by recorder.lock */
static struct chunk *_Atomic first_window; /* of this process; stores its fatal signal */
static atomic_uint threads;
static _Atomic uint64_t dropped;
static _Atomic int64_t overhead_ns;

/* ---- windows */

/* Return a window with a new thread number, or NULL if no window or no 16-bit number is left. */
static struct chunk *window_new(uint32_t *number, enum content content)
{
    struct chunk *none = NULL;

    *number = atomic_fetch_add(&threads, 1);
    if (*number > UINT16_MAX) {
        atomic_fetch_sub(&threads, 1); /* prevents wrap-around */
        return NULL;
    }
    struct chunk *const window = file_window_create(*number, content);

    if (content == CONTENT_CALLS)
        atomic_compare_exchange_strong(&first_window, &none, window);
    return window;
}

/* Write when a thread ends, because its windows, and its number with them, go to a new thread. */
static void thread_end_write(const struct thread *t)
{
    enum { MOST_LINES = 1 << 16 };
    static atomic_uint lines;
    struct text line = {0};

    if (atomic_fetch_add(&lines, 1) >= MOST_LINES)
        return;
    text_add(&line, "{\"rank\": %d, \"thread_end\": {\"thread\": %u, \"at_ns\": %lld}}\n",
             recorder.rank, t->number, (long long)now_ns());
    if (!line.cut)
        file_write_line(&line);
    text_free(&line);
}

/* Keep the record of the poll of a thread that ends. */
static void poll_keep(struct thread *t)
{
    if (!t->polls || !atomic_load(&recorder.active) || t->window == NULL)
        return;
    record_check();
    t->window->head.function = 0;
    t->window->head.polling = 0;
    t->used_messages += t->messages != NULL && t->used_messages < CHUNK_RECORDS &&
                        t->messages->records[t->used_messages].kind == KIND_poll;
}

static void thread_end(void *unused)
{
    struct thread *const t = &self;
    struct free_window *const s = malloc(sizeof *s);

    (void)unused;
    poll_keep(t);
    atomic_fetch_add(&overhead_ns, t->recorder_ns);
    if (t->window != NULL && atomic_load(&recorder.active)) {
        t->window->head.task = 0;
        thread_end_write(t);
    }
    /* In a forked child, a thread that does not exist there may own the lock. */
    if (s != NULL && atomic_load(&recorder.active)) {
        *s = (struct free_window){.window = t->window,
                                  .messages = t->messages,
                                  .pack = t->pack,
                                  .used_records = t->used_records,
                                  .used_messages = t->used_messages};
        recorder_lock();
        s->next = free_windows;
        free_windows = s;
        recorder_unlock();
    } else {
        free(s);
    }
    memory_free(t->message_entries);
    interval_counter_close(t->interval);
    memory_free(t->poll);
    *t = (struct thread){.refused = true};
}

static void thread_begin(struct thread *t)
{
    single_thread_add();
    recorder_lock();
    struct free_window *const s = free_windows;

    if (s != NULL) {
        free_windows = s->next;
        t->window = s->window;
        t->used_records = s->used_records;
        t->messages = s->messages;
        t->pack = s->pack;
        t->used_messages = s->used_messages;
        t->number = t->window->head.thread;
    }
    recorder_unlock();
    free(s);
    if (t->window == NULL)
        t->window = window_new(&t->number, CONTENT_CALLS);
    if (t->window == NULL) {
        t->refused = true;
        return;
    }
    t->window->head.task = (uint32_t)syscall(SYS_gettid);
    if (atomic_load(&recorder.logs_intervals))
        t->interval = interval_counter_open();
    if (thread_key_made)
        pthread_setspecific(thread_key, t);
}

/* Clear a window whose contents are elsewhere in the log. */
void record_window_clear(struct chunk *w, uint32_t *used)
{
    /* While the serial equals that of the appended chunk, readers ignore the window. */
    memset(w->records, 0, sizeof w->records);
    atomic_thread_fence(memory_order_release);
    w->head.serial++;
    atomic_thread_fence(memory_order_release);
    *used = 0;
}

/* Append a window to the log, and clear it. */
bool record_window_append(struct chunk *w, uint32_t *used)
{
    if (!file_window_append(w))
        return false;
    record_window_clear(w, used);
    return true;
}

/* Ensure that this thread has a window. Returns false if none is available. */
bool record_window_ensure(void)
{
    struct thread *const t = &self;

    if (t->window == NULL && !t->refused &&
        !atomic_load_explicit(&recorder.stopped, memory_order_relaxed))
        thread_begin(t);
    return t->window != NULL;
}

/* Ensure that this thread has a window for messages. Returns false if none is available. */
bool record_messages_ensure(void)
{
    struct thread *const t = &self;

    if (t->messages == NULL && record_window_ensure() && !atomic_load(&recorder.stopped) &&
        !atomic_load(&recorder.limited))
        t->messages = file_window_create(t->number, CONTENT_MESSAGES);
    return t->messages != NULL;
}

/* Check the file's length before a write, in the cases that no handler can cover (bus_error.c). */
void record_check_length(void)
{
    if (self.bus == BUS_UNKNOWN) {
        sigset_t now;

        pthread_sigmask(SIG_BLOCK, NULL, &now);
        self.bus = sigismember(&now, SIGBUS) == 1 ? BUS_BLOCKED : BUS_OPEN;
    }
    if (self.bus == BUS_BLOCKED || atomic_load(&mapped_is_unguarded))
        file_check_length();
}

void record_drop(void)
{
    struct thread *const t = &self;

    atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
    if (t->window != NULL && t->window->head.dropped < UINT32_MAX)
        t->window->head.dropped++;
}

/* Return `count` adjacent records, or NULL after counting a dropped call. */
static struct record *records_reserve(struct thread *t, uint32_t count)
{
    record_check();
    if (t->window == NULL && !t->refused)
        thread_begin(t);
    if (t->refused || atomic_load_explicit(&recorder.stopped, memory_order_relaxed)) {
        record_drop();
        return NULL;
    }
    if (t->used_records + count > CHUNK_RECORDS) {
        if (file_is_full()) /* not dropped: the call is added to the totals instead */
            return NULL;
        if (!record_window_append(t->window, &t->used_records)) {
            record_drop();
            return NULL;
        }
    }
    struct record *const r = &t->window->records[t->used_records];

    t->used_records += count;
    return r;
}

/* Return a new record. It contains the time outside collectives, with an extension if 32 bits are
 * too few. */
struct record *record_new(uint32_t extensions)
{
    struct thread *const t = &self;
    const int64_t outside = t->unrecorded_ns;
    const bool wide = outside > (int64_t)UINT32_MAX;
    struct record *r = records_reserve(t, 1 + extensions + wide);

    if (r == NULL)
        return NULL;
    if (wide)
        record_write_extension(r++, EXT_OUTSIDE, outside);
    r += extensions;
    r->outside_ns = wide ? UINT32_MAX : (uint32_t)outside;
    r->thread = (uint16_t)t->number;
    r->choice = 0;
    t->unrecorded_ns = 0;
    return r;
}

/* ---- summary: totals instead of a log, four records per shape group and algorithm */

/* Return the first of `count` records: the others are its extensions, from `first` on. Returns NULL
 * if memory is insufficient. The caller holds recorder.lock. */
static struct record *summary_new(enum content content, uint32_t shape, enum kind kind,
                                  enum extension first, uint32_t count)
{
    /* windows for all threads; protected by recorder.lock */
    static struct {
        struct chunk *window;
        uint32_t used, number;
    } common[2];

    if (common[content].window == NULL || common[content].used + count > CHUNK_RECORDS) {
        common[content].window = window_new(&common[content].number, content);
        common[content].used = 0;
    }
    record_check();
    if (common[content].window == NULL)
        return NULL;
    struct record *const r = &common[content].window->records[common[content].used];

    common[content].used += count;
    for (uint32_t i = 1; i < count; i++)
        record_write_extension(r + i, (enum extension)(first + i - 1), 0);
    r->shape = shape;
    record_publish(r, kind);
    return r;
}

struct record *record_totals_make(enum content content, struct call_shape *shape)
{
    recorder_lock();
    struct record *made = atomic_load_explicit(&shape->totals, memory_order_relaxed);

    if (made == NULL) {
        made = summary_new(content, shape->id, KIND_summary, EXT_SENT, 4);
        atomic_store_explicit(&shape->totals, made, memory_order_release);
    }
    recorder_unlock();
    if (made == NULL)
        record_drop();
    return made;
}

/* Return records for the statistics of a call site (statistics.c), or NULL if memory is
 * insufficient. The caller holds recorder.lock. */
struct record *record_statistics(uint32_t shape)
{
    return summary_new(CONTENT_CALLS, shape, KIND_statistics, EXT_AVERAGE,
                       EXT_END - EXT_AVERAGE + 1);
}

/* Return a record that counts messages (message_number.c), or NULL if memory is insufficient. The
 * caller holds recorder.lock. */
struct record *record_message_count(uint32_t shape)
{
    return summary_new(CONTENT_MESSAGES, shape, KIND_message_count, EXT_SENT, 1);
}

void record_summarise(const struct call *c, int64_t sent, int64_t received)
{
    struct shape_group *const f = c->shape_group;
    const int64_t elapsed = c->exit_ns - c->enter_ns;
    const struct call_shape wanted = {.algorithm = c->algorithm,
                                      .root = ROOT_NONE,
                                      .sent = -1,
                                      .received = -1,
                                      .flags = f->base.flags};
    struct call_shape *const other = c->algorithm != NULL ? call_shape_find(f, &wanted) : NULL;
    struct call_shape *const s = other != NULL ? other : &f->base;
    struct record *const r = record_totals(CONTENT_CALLS, s);

    if (r == NULL)
        return;
    record_check();
    record_totals_add(r, 1, elapsed, sent, received, false);
    /* the rank's progress, even if a ring has overwritten the call */
    __atomic_store_n(&r[0].sequence, c->sequence, __ATOMIC_RELAXED);
    /* end of the run, if it is killed */
    __atomic_store_n(&r[3].enter_ns, c->exit_ns, __ATOMIC_RELAXED);
}

/* ---- start and end */

void record_start_up(void)
{
    thread_key_made = pthread_key_create(&thread_key, thread_end) == 0;
}

/* Append this thread's records to the log (MPI_Pcontrol(2)). The window is in the page cache
 * anyway; the flush makes it part of the log proper. */
void record_flush(void)
{
    struct thread *const t = &self;

    /* Skip the flush in a callback within a call, because that call's record is open in this
     * window. In a ring, a partial window would take a whole slot. */
    if (recorder.options.ring == 0 && t->call == NULL && t->window != NULL && t->used_records > 0 &&
        !atomic_load(&recorder.stopped) && !file_is_full())
        record_window_append(t->window, &t->used_records);
}

void record_signal(int number, int sender)
{
    struct chunk *const w = atomic_load(&first_window);

    record_check();
    if (w != NULL && atomic_load(&recorder.active)) {
        w->head.signal = (uint16_t)(number | sender << 8);
        file_note_signal(now_ns(), 0);
    }
    /* Other threads may still be writing to their windows, so only this window is sealed. */
    if (self.window != NULL)
        file_window_seal(self.window);
    if (self.messages != NULL)
        file_window_seal(self.messages);
    if (self.pack != NULL)
        file_window_seal(self.pack->chunk);
}

int64_t record_overhead_ns(void)
{
    return atomic_load(&overhead_ns) + self.recorder_ns;
}

uint64_t record_dropped(void)
{
    return atomic_load(&dropped);
}
