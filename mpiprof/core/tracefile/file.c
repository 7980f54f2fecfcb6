/* Files of the trace: one log and one file of tables per rank, or for all ranks of a node.
 *
 * The log is a sequence of 64 KiB chunks; the first is its header (log_header.c). A thread fills
 * its window, a mapped chunk. The window's disk space is reserved at creation, so that a full disk
 * never causes SIGBUS. A full window is appended to the log by pwrite. After a kill, the window's
 * contents are in the page cache. The same pages are reused, and a full disk is reported as an
 * error code.
 *
 * The tables are lines of JSON. A line first reserves its offset at the end that the header stores,
 * and is then written there. So lines of ranks that share the tables never mix, even if a signal, a
 * full disk or a file server splits a write. A crash in between leaves zeros, which readers skip.
 *
 * If the log is a ring, a rank's full windows go to a fixed number of slots, reserved together, and
 * overwrite the oldest slot once all are used. A slot is first cleared, and its header is written
 * last. So after a kill a slot contains one chunk or none, and the window the newest records.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/recorder.h"
#include "tracefile/tracefile.h"

enum { MOST_SEALED = 256 };

static struct fd_guard log_file = {.descriptor = -1}, tables_file = {.descriptor = -1};
static struct log_header *head;
char file_name[320];
static struct {
    pthread_mutex_t lock;
    off_t first;     /* offset of the slots; 0 if not yet reserved */
    uint64_t turned; /* number of windows written to the ring */
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic int64_t log_bytes; /* size of this rank's log, including its windows */
static struct chunk *_Atomic windows[MOST_SEALED]; /* of live and ended threads */
static atomic_uint window_count;

static void say_stopped(const char *what, int reason)
{
    if (!atomic_exchange(&recorder.stopped, true))
        recorder_print("rank %d: %s: %s; recording stops, the program continues", recorder.rank,
                       what, strerror(reason));
}

/* Write a text to a file other than the trace's logs. */
bool file_write(int descriptor, const struct text *t)
{
    const struct iovec part = {t->bytes, t->length};

    return t->bytes != NULL && fd_guard_write(descriptor, &part, 1, -1) == (ssize_t)t->length;
}

static bool open_log(const char *folder, bool shared)
{
    char file[sizeof file_name + 16];

    snprintf(file, sizeof file, "%s.log", file_name);
    int descriptor = folder_open(folder, file, O_RDWR | O_CREAT | O_EXCL);
    const bool made = descriptor >= 0;

    if (made)
        head = log_header_create(descriptor);
    else if (errno == EEXIST && shared && (descriptor = folder_open(folder, file, O_RDWR)) >= 0)
        head = log_header_open(descriptor);
    else
        return false;
    if (head == NULL) {
        const int reason = errno;

        if (made && shared) /* so that other ranks do not wait for the header */
            folder_remove_mark(folder, file);
        close(descriptor);
        errno = reason;
        return false;
    }
    log_file = fd_guard_register(descriptor);
    return true;
}

static bool open_pair(const char *folder, bool shared, int rank)
{
    char file[sizeof file_name + 16];

    mapped_set_message(folder, file_name);
    if (!open_log(folder, shared))
        return false;
    if (log_header_claim(head, rank)) {
        snprintf(file, sizeof file, "%s.tables", file_name);
        const int descriptor = folder_open(folder, file, O_WRONLY | O_CREAT);

        if (descriptor >= 0)
            tables_file = fd_guard_register(descriptor);
        if (tables_file.descriptor >= 0)
            return true;
        log_header_release(head, rank);
    }
    const int reason = errno;

    mapped_remove(head);
    head = NULL;
    close(log_file.descriptor);
    log_file.descriptor = -1;
    errno = reason;
    return false;
}

/* Open this rank's files in the folder. If node is not NULL, the ranks of the node share files; if
 * the shared files cannot be opened, or node is NULL, the rank has separate files. Returns false
 * with errno EEXIST if another process writes for this rank. */
bool file_open(const char *folder, int rank, const char *node)
{
    if (!folder_create(folder))
        return false;
    if (node != NULL) {
        snprintf(file_name, sizeof file_name, "node-%s", node);
        if (open_pair(folder, true, rank))
            return true;
        if (errno == EEXIST)
            return false;
    }
    snprintf(file_name, sizeof file_name, "rank-%06d", rank);
    return open_pair(folder, false, rank);
}

/* ---- windows and lines */

/* Replace truncated mappings before a write, where no handler can replace them (bus_error.c). */
void file_check_length(void)
{
    struct mapping *const newest = mapped_newest(); /* before the length is read */
    struct stat s;

    if (log_file.descriptor >= 0)
        mapped_replace_beyond(newest,
                              signal_guard_file_status(log_file.descriptor, &s) ? s.st_size : 0);
}

/* Store a fatal signal in the log's header. Safe in a signal handler. */
void file_note_signal(int64_t time_ns, int siblings)
{
    if (head != NULL && !mapped_is_lost(head))
        log_header_note_signal(head, time_ns, siblings);
}

/* Store for all ranks of the node how far the first node's clock is ahead of its clock. */
void file_set_clock_ahead(int64_t ns)
{
    file_check_length();
    if (head != NULL && !mapped_is_lost(head))
        atomic_store(&head->clock_ahead_ns, ns);
}

int64_t file_clock_ahead(void)
{
    return head != NULL && !mapped_is_lost(head) ? atomic_load(&head->clock_ahead_ns) : 0;
}

/* Reserve bytes at the end of the log. Returns their offset, or 0 if the header is lost. */
static off_t log_reserve(uint64_t bytes)
{
    file_check_length();
    const uint64_t at = atomic_fetch_add(&head->end, bytes);

    return mapped_is_lost(head) ? 0 : (off_t)at;
}

/* Return a new zeroed window for a thread. Returns NULL if recording has stopped. */
struct chunk *file_window_create(uint32_t thread, enum content content)
{
    if (!fd_guard_is_valid(&log_file) || atomic_load(&recorder.stopped))
        return NULL;
    const off_t offset = log_reserve(CHUNK_BYTES);
    const int failed = offset > 0 ? fd_guard_reserve(log_file.descriptor, offset) : ESTALE;
    struct chunk *const c =
        failed == 0 ? mapped_add(log_file.descriptor, offset, CHUNK_BYTES, MAP_POPULATE) : NULL;

    if (c == NULL) {
        say_stopped(recorder.folder, failed != 0 ? failed : errno);
        return NULL;
    }
    atomic_fetch_add(&log_bytes, CHUNK_BYTES);
    c->head = (struct chunk_head){.rank = (uint32_t)recorder.rank,
                                  .thread = (uint16_t)thread,
                                  .window = 1,
                                  .content = (uint8_t)content,
                                  .magic = CHUNK_MAGIC};
    const unsigned number = atomic_fetch_add(&window_count, 1);

    if (number < MOST_SEALED)
        atomic_store(&windows[number], c);
    return c;
}

/* Return true if this rank's log has reached its limit (--limit). The first time, that is noted in
 * the tables, and rank 0 reports it. From then on calls are added to totals (record.c). */
bool file_is_full(void)
{
    const int64_t limit = recorder.options.limit;
    struct text t = {0};

    if (recorder.options.ring > 0 || atomic_load(&log_bytes) + CHUNK_BYTES <= limit)
        return false;
    if (atomic_exchange(&recorder.limited, true))
        return true;
    text_add(&t, "{\"rank\": %d, \"limit\": {\"at_ns\": %lld, \"bytes\": %lld}}\n", recorder.rank,
             (long long)now_ns(), (long long)limit);
    file_write_line(&t);
    text_free(&t);
    if (recorder.rank == 0)
        recorder_print("the log has reached its limit of %lld bytes for each rank, so later calls "
                       "are only in the totals: raise it with --limit",
                       (long long)limit);
    return true;
}

/* Mark a chunk as empty, for readers. Returns the bytes written, or -1. */
static ssize_t magic_clear(off_t offset)
{
    uint32_t none = 0;

    return fd_guard_write(log_file.descriptor, &(struct iovec){&none, sizeof none}, 1, offset);
}

/* Write a chunk, as header and records, to the ring's next slot. Returns 0 or an errno. */
static int ring_write(const struct iovec *parts)
{
    const int64_t slots = recorder.options.ring / CHUNK_BYTES - 1; /* without the window */
    const uint64_t places = slots > 1 ? (uint64_t)slots : 1;
    const ssize_t front = (ssize_t)parts[0].iov_len, records = (ssize_t)parts[1].iov_len;

    if (ring.first == 0 && (ring.first = log_reserve(places * CHUNK_BYTES)) == 0)
        return ESTALE;
    const off_t offset = ring.first + (off_t)(ring.turned % places * CHUNK_BYTES);

    errno = ENOSPC; /* for incomplete writes */
    if ((ring.turned >= places && magic_clear(offset) != (ssize_t)sizeof(uint32_t)) ||
        fd_guard_write(log_file.descriptor, &parts[1], 1, offset + front) != records ||
        fd_guard_write(log_file.descriptor, &parts[0], 1, offset) != front)
        return errno;
    if (ring.turned++ < places)
        atomic_fetch_add(&log_bytes, CHUNK_BYTES);
    return 0;
}

/* Write a chunk to the end of the log. Returns 0 or an errno. */
static int chunk_write(const struct iovec *parts)
{
    const off_t offset = log_reserve(CHUNK_BYTES);

    if (offset == 0)
        return ESTALE;
    const ssize_t written = fd_guard_write(log_file.descriptor, parts, 2, offset);

    if (written == CHUNK_BYTES) {
        atomic_fetch_add(&log_bytes, CHUNK_BYTES);
        return 0;
    }
    if (written < 0)
        return errno;
    /* Find out why the rest could not be written. */
    const int reason = magic_clear(offset + written) < 0 ? errno : ENOSPC;

    return written > 0 && magic_clear(offset) < 0 ? errno : reason;
}

/* Append a full window to the log. */
bool file_window_append(const struct chunk *chunk)
{
    struct chunk_head front = chunk->head;
    const struct iovec parts[] = {{&front, sizeof front},
                                  {(void *)(uintptr_t)chunk->records, sizeof chunk->records}};
    int reason;

    front.window = 0;
    front.check = checksum_chunk(&front, chunk);
    if (!fd_guard_is_valid(&log_file)) {
        say_stopped("the log was closed by the program", EBADF);
        return false;
    }
    if (recorder.options.ring > 0) {
        lock_acquire(&ring.lock);
        reason = ring_write(parts);
        lock_release(&ring.lock);
    } else {
        reason = chunk_write(parts);
    }
    if (reason != 0)
        say_stopped(recorder.folder, reason);
    return reason == 0;
}

/* Return the number of chunks that a reader must find in the log for this process. */
unsigned file_chunk_count(void)
{
    return (unsigned)(atomic_load(&log_bytes) / CHUNK_BYTES);
}

/* Store the checksum of a window's final contents. Signal handlers may call this. */
void file_window_seal(struct chunk *c)
{
    c->head.check = checksum_chunk(&c->head, c);
}

/* Write a line to the offset that it reserves. Returns false and sets errno on failure. After a
 * failure the reserved space is released, except for one byte after the written part, unless a
 * later line has reserved space. */
static bool line_write_at_end(const struct iovec *parts)
{
    const uint64_t length = parts[0].iov_len + parts[1].iov_len;

    file_check_length();
    const uint64_t at = atomic_fetch_add(&head->tables, length);

    if (mapped_is_lost(head)) {
        errno = ESTALE;
        return false;
    }
    const ssize_t written = fd_guard_write(tables_file.descriptor, parts, 2, (off_t)at);
    uint64_t end = at + length;

    if (written == (ssize_t)length)
        return true;
    if (written >= 0)
        errno = ENOSPC;
    atomic_compare_exchange_strong(&head->tables, &end,
                                   written > 0 ? at + (uint64_t)written + 1 : at);
    return false;
}

/* Append a line with its checksum to the tables. */
bool file_write_line(const struct text *line)
{
    if (line->bytes == NULL || line->length < 2 || tables_file.descriptor < 0)
        return false;
    if (!fd_guard_is_valid(&tables_file)) {
        say_stopped("the tables were closed by the program", EBADF);
        return false;
    }
    char end[40];
    struct text tail = {.bytes = end, .room = sizeof end};

    text_add(&tail, ", \"check\": \"%08x\"}\n", checksum_bytes(line->bytes, line->length - 2));
    const struct iovec parts[] = {{line->bytes, line->length - 2}, {tail.bytes, tail.length}};

    if (line_write_at_end(parts))
        return true;
    say_stopped(recorder.folder, errno);
    return false;
}

/* Append a note to the tables. */
void file_write_note(const char *format, ...)
{
    struct text words = {0}, t = {0};
    va_list arguments;

    va_start(arguments, format);
    text_format(&words, format, arguments);
    va_end(arguments);
    text_add(&t, "{\"rank\": %d, \"note\": ", recorder.rank);
    text_json(&t, words.bytes != NULL ? words.bytes : "", -1);
    text_add(&t, "}\n");
    file_write_line(&t);
    text_free(&t);
    text_free(&words);
}

void file_close(void)
{
    const unsigned count = atomic_load(&window_count);

    if (!recorder.sessions) { /* Sessions may restart */
        file_check_length();
        for (unsigned i = 0; i < count && i < MOST_SEALED; i++) {
            struct chunk *const c = atomic_load(&windows[i]);

            if (c != NULL)
                file_window_seal(c);
        }
    }
    if (fd_guard_is_valid(&log_file))
        close(log_file.descriptor);
    if (fd_guard_is_valid(&tables_file))
        close(tables_file.descriptor);
    log_file.descriptor = tables_file.descriptor = -1;
    selector_log_close();
}
