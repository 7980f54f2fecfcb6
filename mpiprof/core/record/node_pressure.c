/* Throttling of the process's control group, and pressure on the node (PSI).
 *
 * One thread of a process reads them at the end of an interval of SHORTEST_NS or longer, if
 * READ_EVERY_NS have passed since the last reading. A reading takes some 10 us. It becomes a record
 * of its own before the records of that interval, with the differences from the last reading.
 */
#include "record/node_pressure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/recorder.h"
#include "record/interval_counters.h"
#include "tracefile/tracefile.h"

enum { READ_EVERY_NS = 100000000, SHORTEST_NS = 5000000 };
enum { THROTTLED, PROCESSOR, FILES_IO, MEMORY, SOURCES };

static struct source {
    struct fd_guard file;
    const char *label; /* before the value */
    int64_t unit_ns, last_ns;
} sources[SOURCES];
static _Atomic int64_t last_ns = INT64_MAX; /* INT64_MAX while a thread reads, and if disabled */

/* Read a source in ns. Returns -1 if it is unavailable. */
static int64_t source_read(const struct source *s)
{
    char text[512]; /* cpu.stat has at most nine lines of 40 characters */
    const ssize_t length =
        fd_guard_is_valid(&s->file) ? pread(s->file.descriptor, text, sizeof text - 1, 0) : 0;

    if (length <= 0)
        return -1;
    text[length] = '\0';
    const char *const found = strstr(text, s->label);

    return found != NULL ? strtoll(found + strlen(s->label), NULL, 10) * s->unit_ns : -1;
}

static void source_open(struct source *s, const char *path, const char *label, int64_t unit_ns)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);

    *s = (struct source){.file = {.descriptor = -1}, .label = label, .unit_ns = unit_ns};
    if (descriptor >= 0)
        s->file = fd_guard_register(descriptor);
    s->last_ns = source_read(s);
}

/* Open the statistics of the control group that limits the process. */
static void throttling_find(void)
{
    struct control_group group;

    sources[THROTTLED].file.descriptor = -1;
    if (control_group_find(&group)) {
        text_add(&group.path, "/cpu.stat");
        if (!group.path.cut)
            source_open(&sources[THROTTLED], group.path.bytes,
                        group.first_version ? "throttled_time " : "throttled_usec ",
                        group.first_version ? 1 : 1000);
    }
    text_free(&group.path);
}

void node_pressure_start(void)
{
    throttling_find();
    source_open(&sources[PROCESSOR], "/proc/pressure/cpu", "total=", 1000);
    source_open(&sources[FILES_IO], "/proc/pressure/io", "total=", 1000);
    source_open(&sources[MEMORY], "/proc/pressure/memory", "total=", 1000);
    if (sources[PROCESSOR].last_ns < 0)
        interval_counter_note("pressure", "/proc/pressure cannot be read");
    bool some = false;

    for (int i = 0; i < SOURCES; i++)
        some |= sources[i].file.descriptor >= 0;
    if (some)
        atomic_store(&last_ns, now_ns());
}

/* Return the time of the last reading if another one is due at the end of an interval, else 0. Only
 * the caller may then call node_pressure_read. */
int64_t node_pressure_due(int64_t begin_ns, int64_t end_ns)
{
    int64_t since = atomic_load_explicit(&last_ns, memory_order_relaxed);
    const bool due = end_ns - begin_ns >= SHORTEST_NS && end_ns - since >= READ_EVERY_NS &&
                     atomic_compare_exchange_strong(&last_ns, &since, INT64_MAX);

    return due ? since : 0;
}

static uint32_t to_us(int64_t ns)
{
    return ns < 0 ? UINT32_MAX : ns / 1000 < UINT32_MAX ? (uint32_t)(ns / 1000) : UINT32_MAX - 1;
}

/* Read all sources, and write the differences from the last reading. */
void node_pressure_read(struct record *r, int64_t since_ns)
{
    const int kept = errno;
    int64_t ns[SOURCES];

    for (int i = 0; i < SOURCES; i++) {
        const int64_t value = source_read(&sources[i]), before = sources[i].last_ns;

        ns[i] = value < 0 || before < 0 || value < before ? -1 : value - before;
        sources[i].last_ns = value;
    }
    const int64_t now = now_ns();

    *r = (struct record){.enter_ns = since_ns,
                         .exit_ns = ns[THROTTLED],
                         .sequence = to_us(ns[PROCESSOR]),
                         .shape = to_us(ns[FILES_IO]),
                         .outside_ns = to_us(ns[MEMORY]),
                         .kind = KIND_interval_pressure};
    atomic_store(&last_ns, now);
    errno = kept;
}

/* Close the files, unless another thread is reading them. */
void node_pressure_end(void)
{
    int64_t since = atomic_load(&last_ns);

    if (since == INT64_MAX || !atomic_compare_exchange_strong(&last_ns, &since, INT64_MAX))
        return;
    for (int i = 0; i < SOURCES; i++)
        if (fd_guard_is_valid(&sources[i].file))
            close(sources[i].file.descriptor);
}
