/* Processor time of the process's other threads by name, as lines of the tables.
 *
 * At the end of an interval in which other threads computed, the recorder reads the names and the
 * processor times of all threads from /proc/self/task. A reading takes some 10 us per thread. The
 * pause between two readings is a tenth of the time since the first, so their number is the
 * logarithm of the run time. Each line has the times since the start of the threads, on a processor
 * and in its queue. A thread that has ended before the reading is not seen.
 *
 * Threads: any; one reads at a time.
 */
#include "record/thread_times.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/recorder.h"
#include "tracefile/tracefile.h"

enum { SHORTEST_PAUSE_NS = 100000000, MOST_THREADS = 256, MOST_NAMES = 16, NAME_BYTES = 16 };
enum { LIST_BYTES = 4096, PAUSES = 10, BUSY_PART = 10 };

static _Atomic int64_t next_ns; /* INT64_MAX while a thread reads */
static int64_t first_ns;

struct directory_entry { /* as the kernel returns it */
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t kind;
    char name[];
};
struct thread_time {
    char name[NAME_BYTES];
    int64_t ns, queue_ns; /* on a processor, and ready to run */
    bool is_written;
};
struct times_reading {
    struct thread_time threads[MOST_THREADS];
    int count;
    _Alignas(8) char list[LIST_BYTES];
};

/* Read a file of a thread into a text. Returns its length, 0 if the thread has ended. */
static size_t file_read(int tasks, const char *task, const char *file, char *text, size_t room)
{
    char path[64];

    if (strlen(task) + strlen(file) + 2 > sizeof path)
        return 0;
    strcpy(path, task);
    strcat(path, file);
    const int descriptor = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = descriptor >= 0 ? read(descriptor, text, room - 1) : 0;

    if (descriptor >= 0)
        close(descriptor);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

static void thread_add(struct times_reading *r, int tasks, const char *task)
{
    char name[NAME_BYTES + 1], times[96];

    if (r->count == MOST_THREADS || file_read(tasks, task, "/comm", name, sizeof name) == 0 ||
        file_read(tasks, task, "/schedstat", times, sizeof times) == 0)
        return;
    struct thread_time *const t = &r->threads[r->count++];

    memcpy(t->name, name, strcspn(name, "\n") < NAME_BYTES ? strcspn(name, "\n") : NAME_BYTES);
    char *end;

    t->ns = strtoll(times, &end, 10);
    t->queue_ns = strtoll(end, NULL, 10);
}

/* Add all threads but the calling one. */
static void threads_add(struct times_reading *r, int tasks)
{
    const long self_task = syscall(SYS_gettid);
    long bytes;

    while ((bytes = syscall(SYS_getdents64, tasks, r->list, sizeof r->list)) > 0)
        for (long at = 0; at < bytes;) {
            const struct directory_entry *const entry =
                (const struct directory_entry *)(const void *)(r->list + at);
            const long task = strtol(entry->name, NULL, 10);

            if (task > 0 && task != self_task)
                thread_add(r, tasks, entry->name);
            at += entry->length;
        }
}

/* Add the busy threads with the name of a thread. */
static void name_add(struct text *t, struct times_reading *r, int first, int64_t least_ns)
{
    int count = 0;
    int64_t ns = 0, queue_ns = 0;

    for (int i = first; i < r->count; i++) {
        struct thread_time *const other = &r->threads[i];

        if (other->ns < least_ns || strncmp(other->name, r->threads[first].name, NAME_BYTES) != 0)
            continue;
        other->is_written = true;
        count++;
        ns += other->ns;
        queue_ns += other->queue_ns;
    }
    text_add(t, "%s{\"name\": ", t->bytes != NULL && t->bytes[t->length - 1] == '}' ? ", " : "");
    text_json(t, r->threads[first].name, (long)strnlen(r->threads[first].name, NAME_BYTES));
    text_add(t, ", \"count\": %d, \"ns\": %lld, \"queue_ns\": %lld}", count, (long long)ns,
             (long long)queue_ns);
}

/* Write the threads that have at least a tenth of the busiest thread's time. */
static void line_write(struct times_reading *r, int64_t at_ns)
{
    struct text t = {0};
    int64_t most_ns = 1;

    for (int i = 0; i < r->count; i++)
        most_ns = r->threads[i].ns > most_ns ? r->threads[i].ns : most_ns;
    text_add(&t, "{\"rank\": %d, \"threads\": {\"at_ns\": %lld, \"names\": [", recorder.rank,
             (long long)at_ns);
    for (int i = 0, names = 0; i < r->count && names < MOST_NAMES; i++)
        if (!r->threads[i].is_written && r->threads[i].ns >= most_ns / BUSY_PART) {
            name_add(&t, r, i, most_ns / BUSY_PART);
            names++;
        }
    text_add(&t, "]}}\n");
    if (!t.cut)
        file_write_line(&t);
    text_free(&t);
}

/* Read all threads, if a reading is due at the end of an interval. */
void thread_times_read(int64_t at_ns)
{
    const int kept = errno; /* errno belongs to the program */
    int64_t due = atomic_load_explicit(&next_ns, memory_order_relaxed);

    if (at_ns < due || !atomic_compare_exchange_strong(&next_ns, &due, INT64_MAX))
        return;
    const int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct times_reading *const r = tasks >= 0 ? memory_allocate(sizeof *r) : NULL;

    if (r != NULL) {
        threads_add(r, tasks);
        line_write(r, at_ns);
        memory_free(r);
    }
    if (tasks >= 0)
        close(tasks);
    if (first_ns == 0)
        first_ns = at_ns;
    const int64_t pause = (at_ns - first_ns) / PAUSES;

    atomic_store(&next_ns, at_ns + (pause > SHORTEST_PAUSE_NS ? pause : SHORTEST_PAUSE_NS));
    errno = kept;
}
