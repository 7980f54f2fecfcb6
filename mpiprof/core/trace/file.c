/* The trace folder: one log and one file of tables for a rank, or for all ranks of a node.
 *
 * The log is a sequence of 64 KiB chunks, the first of them its head (head.c). A thread fills its
 * window, a mapped chunk whose space is reserved when it is made (so that a full disk can never be a
 * SIGBUS), and appends a copy of it by pwrite when it is full: what a killed process leaves in the
 * window is in the page cache, the same pages are touched again and again, and a full disk is an
 * error code.
 *
 * The tables are lines of JSON. Each first takes its place, from the end that the head holds, and is
 * then written there: lines of ranks that share the tables never mix, though a write may be split by
 * a signal, a full disk or a file server. Who is killed between leaves a hole of zeros, which holds
 * nobody up, and which a reader passes over.
 *
 * Where the log is a ring, a rank's full windows go to a fixed number of places, reserved together:
 * over the oldest once all are used. A place is emptied first and gets its head last, so that what
 * a killed process leaves there is one chunk, or none; the window still holds the newest.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/common.h"
#include "base/guard.h"
#include "base/lock.h"
#include "base/mapped.h"
#include "base/recorder.h"
#include "base/text.h"
#include "trace/check.h"
#include "trace/event.h"
#include "trace/file.h"
#include "trace/folder.h"
#include "trace/head.h"
#include "trace/owned.h"
#include "trace/selector_log.h"

enum { MOST_SEALED = 256 };

static struct owned log_file = {.descriptor = -1}, tables_file = {.descriptor = -1};
static struct head *head;
static char name[320]; /* of this rank's files */
static struct {
    pthread_mutex_t lock;
    off_t first;     /* of its places; 0: not yet reserved */
    uint64_t turned; /* windows that went there */
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic int64_t log_bytes;                  /* of this rank, its windows among them */
static struct chunk *_Atomic windows[MOST_SEALED]; /* of this process, in use or left */
static atomic_uint window_count;

static void say_stopped(const char *what, int reason)
{
    if (!atomic_exchange(&recorder.stopped, true))
        recorder_say("rank %d: %s: %s; recording stops, the program goes on", recorder.rank, what,
                     strerror(reason));
}

/* Writes a text to a file that is not one of the trace's logs. */
bool file_write(int descriptor, const struct text *t)
{
    const struct iovec part = {t->bytes, t->length};

    return t->bytes != NULL && owned_write(descriptor, &part, 1, -1) == (ssize_t)t->length;
}

static bool open_log(const char *folder, bool shared)
{
    char file[sizeof name + 16];

    snprintf(file, sizeof file, "%s.log", name);
    int descriptor = folder_open(folder, file, O_RDWR | O_CREAT | O_EXCL);
    const bool made = descriptor >= 0;

    if (made)
        head = head_make(descriptor);
    else if (errno == EEXIST && shared && (descriptor = folder_open(folder, file, O_RDWR)) >= 0)
        head = head_share(descriptor);
    else
        return false;
    if (head == NULL) {
        const int reason = errno;

        if (made && shared) /* others need not wait for it */
            folder_unmark(folder, file);
        close(descriptor);
        errno = reason;
        return false;
    }
    log_file = owned_take(descriptor);
    return true;
}

static bool open_pair(const char *folder, bool shared, int rank)
{
    char file[sizeof name + 16];

    mapped_say_lost(folder, name);
    if (!open_log(folder, shared))
        return false;
    if (head_claim(head, rank)) {
        snprintf(file, sizeof file, "%s.tables", name);
        const int descriptor = folder_open(folder, file, O_WRONLY | O_CREAT);

        if (descriptor >= 0)
            tables_file = owned_take(descriptor);
        if (tables_file.descriptor >= 0)
            return true;
        head_release(head, rank);
    }
    const int reason = errno;

    mapped_remove(head);
    head = NULL;
    close(log_file.descriptor);
    log_file.descriptor = -1;
    errno = reason;
    return false;
}

/* Opens this rank's files in the folder, which those of a node share; NULL: its own, as where those
 * can't be had. errno EEXIST: another process writes for this rank. */
bool file_open(const char *folder, int rank, const char *node)
{
    if (!folder_make(folder))
        return false;
    if (node != NULL) {
        snprintf(name, sizeof name, "node-%s", node);
        if (open_pair(folder, true, rank))
            return true;
        if (errno == EEXIST)
            return false;
    }
    snprintf(name, sizeof name, "rank-%06d", rank);
    return open_pair(folder, false, rank);
}

/* Of this rank's log and tables, without the folder and the endings. */
const char *file_name(void)
{
    return name;
}

/* ---- windows and lines */

/* Where no handler can replace what another process truncates (bus_error.c): before a write. */
void file_check(void)
{
    struct stat s;

    if (log_file.descriptor >= 0)
        mapped_replace_beyond(guard_file_status(log_file.descriptor, &s) ? s.st_size : 0);
}

/* Takes so many bytes at the end of the log. Returns where they begin; 0: the head is lost. */
static off_t place_take(uint64_t bytes)
{
    file_check();
    const uint64_t at = atomic_fetch_add(&head->end, bytes);

    return mapped_is_lost(head) ? 0 : (off_t)at;
}

/* A new window for a thread, zeroed and mapped; NULL: none to be had, recording has stopped. */
struct chunk *file_window(uint32_t thread)
{
    if (!owned_is_ours(&log_file) || atomic_load(&recorder.stopped))
        return NULL;
    const off_t offset = place_take(CHUNK_BYTES);
    const int failed = offset > 0 ? owned_reserve(log_file.descriptor, offset) : ESTALE;

    if (failed != 0) {
        say_stopped(recorder.folder, failed);
        return NULL;
    }
    struct chunk *const c = mapped_add(log_file.descriptor, offset, CHUNK_BYTES, MAP_POPULATE);
    if (c == NULL) {
        say_stopped(recorder.folder, errno);
        return NULL;
    }
    atomic_fetch_add(&log_bytes, CHUNK_BYTES);
    c->head = (struct chunk_head){.rank = (uint32_t)recorder.rank,
                                  .thread = (uint16_t)thread,
                                  .window = 1,
                                  .magic = CHUNK_MAGIC};
    const unsigned number = atomic_fetch_add(&window_count, 1);

    if (number < MOST_SEALED)
        atomic_store(&windows[number], c);
    return c;
}

/* Whether this rank's log may not grow by a chunk any more (--limit): said once, in the tables and
 * by rank 0. From then on calls are summed up (record.c). */
bool file_full(void)
{
    const int64_t limit = recorder.options.limit;
    struct text t = {0};

    if (recorder.options.ring > 0 || atomic_load(&log_bytes) + CHUNK_BYTES <= limit)
        return false;
    if (atomic_exchange(&recorder.limited, true))
        return true;
    text_add(&t, "{\"rank\": %d, \"limit\": {\"at_ns\": %lld, \"bytes\": %lld}}\n", recorder.rank,
             (long long)now_ns(), (long long)limit);
    file_line(&t);
    text_free(&t);
    if (recorder.rank == 0)
        recorder_say("the log has reached its limit of %lld bytes a rank: later calls are only "
                     "summed up; --limit sets it",
                     (long long)limit);
    return true;
}

/* The places of a ring beside the window that they come from. */
static uint64_t ring_places(void)
{
    const int64_t places = recorder.options.ring / CHUNK_BYTES - 1;

    return places > 1 ? (uint64_t)places : 1;
}

/* Writes a chunk to the ring's next place. */
static bool ring_write(const struct iovec *head_part, const struct iovec *records_part)
{
    uint32_t none = 0;
    const struct iovec magic = {&none, sizeof none};
    const uint64_t places = ring_places();

    if (ring.first == 0 && (ring.first = place_take(places * CHUNK_BYTES)) == 0) {
        errno = ESTALE;
        return false;
    }
    const off_t offset = ring.first + (off_t)(ring.turned % places * CHUNK_BYTES);
    const ssize_t records = (ssize_t)records_part->iov_len, front = (ssize_t)head_part->iov_len;

    errno = ENOSPC; /* where less is written than asked for */
    if ((ring.turned >= places &&
         owned_write(log_file.descriptor, &magic, 1, offset) != (ssize_t)sizeof none) ||
        owned_write(log_file.descriptor, records_part, 1, offset + front) != records ||
        owned_write(log_file.descriptor, head_part, 1, offset) != front)
        return false;
    if (ring.turned++ < places)
        atomic_fetch_add(&log_bytes, CHUNK_BYTES);
    return true;
}

/* Puts a full window into the log. */
bool file_append(const struct chunk *chunk)
{
    struct chunk_head front = chunk->head;
    const size_t rest = CHUNK_BYTES - sizeof front;
    const struct iovec parts[] = {{&front, sizeof front},
                                  {(void *)(uintptr_t)((const char *)chunk + sizeof front), rest}};

    front.window = 0;
    front.check = check_chunk(&front, chunk);
    if (!owned_is_ours(&log_file)) {
        say_stopped("the log was closed by the program", EBADF);
        return false;
    }
    if (recorder.options.ring > 0) {
        lock_take(&ring.lock);
        const bool kept = ring_write(&parts[0], &parts[1]);
        const int why = errno;

        lock_give(&ring.lock);
        if (!kept)
            say_stopped(recorder.folder, why);
        return kept;
    }
    const off_t offset = place_take(CHUNK_BYTES);
    const ssize_t written = offset > 0 ? owned_write(log_file.descriptor, parts, 2, offset) : -1;
    if (written == CHUNK_BYTES) {
        atomic_fetch_add(&log_bytes, CHUNK_BYTES);
        return true;
    }
    int reason = offset > 0 ? errno : ESTALE;
    uint32_t unused = 0; /* half a chunk is none */
    const struct iovec magic = {&unused, sizeof unused};

    if (written >= 0) {
        const ssize_t more = owned_write(log_file.descriptor, &magic, 1, offset + written);

        reason = more < 0 ? errno : ENOSPC; /* why the rest could not be written */
        if (written > 0 && owned_write(log_file.descriptor, &magic, 1, offset) < 0)
            reason = errno;
    }
    say_stopped(recorder.folder, reason);
    return false;
}

/* How many chunks this process has put into the log: what a reader must find. */
unsigned file_chunks(void)
{
    return (unsigned)(atomic_load(&log_bytes) / CHUNK_BYTES);
}

/* Nothing more is written to a window: from now on a reader can tell damage. From handlers of
 * signals, too. */
void file_seal(struct chunk *c)
{
    c->head.check = check_chunk(&c->head, c);
}

static void seal(void)
{
    const unsigned count = atomic_load(&window_count);

    file_check();
    for (unsigned i = 0; i < count && i < MOST_SEALED; i++) {
        struct chunk *const c = atomic_load(&windows[i]);

        if (c != NULL)
            file_seal(c);
    }
}

/* Writes a line to the place that it takes; false: errno says why. What could not be written gives
 * its place back, but for one byte behind what was, while no later line has taken one. */
static bool place_line(const struct iovec *parts)
{
    const uint64_t length = parts[0].iov_len + parts[1].iov_len;

    file_check();
    const uint64_t at = atomic_fetch_add(&head->tables, length);

    if (mapped_is_lost(head)) {
        errno = ESTALE;
        return false;
    }
    const ssize_t written = owned_write(tables_file.descriptor, parts, 2, (off_t)at);
    uint64_t end = at + length;

    if (written == (ssize_t)length)
        return true;
    if (written >= 0)
        errno = ENOSPC;
    atomic_compare_exchange_strong(&head->tables, &end,
                                   written > 0 ? at + (uint64_t)written + 1 : at);
    return false;
}

/* Appends a line to the tables, with its sum. */
bool file_line(const struct text *line)
{
    if (line->bytes == NULL || line->length < 2 || tables_file.descriptor < 0)
        return false;
    if (!owned_is_ours(&tables_file)) {
        say_stopped("the tables were closed by the program", EBADF);
        return false;
    }
    char end[40];
    struct text tail = {.bytes = end, .room = sizeof end};

    text_add(&tail, ", \"check\": \"%08x\"}\n", check_bytes(line->bytes, line->length - 2));
    const struct iovec parts[] = {{line->bytes, line->length - 2}, {tail.bytes, tail.length}};

    if (place_line(parts))
        return true;
    say_stopped(recorder.folder, errno);
    return false;
}

/* Appends a remark to the tables. */
void file_note(const char *format, ...)
{
    char words[1000];
    struct text t = {0};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    text_add(&t, "{\"rank\": %d, \"note\": ", recorder.rank);
    text_json(&t, words, -1);
    text_add(&t, "}\n");
    file_line(&t);
    text_free(&t);
}

void file_close(void)
{
    if (!recorder.sessions) /* those may come back */
        seal();
    if (owned_is_ours(&log_file))
        close(log_file.descriptor);
    if (owned_is_ours(&tables_file))
        close(tables_file.descriptor);
    log_file.descriptor = tables_file.descriptor = -1;
    selector_log_close();
}
