/* Counters of a thread: its time on the processor and in the run queue, context switches, page
 * faults, instructions and cycles; and the processor time of all threads.
 *
 * The state of a thread is on the heap, and only its thread uses it. An unavailable source is noted
 * once in the tables, and is not queried again.
 */
#include "record/interval_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"
#include "base/recorder.h"
#include "tracefile/tracefile.h"

static atomic_bool queue_is_missing, perf_is_missing;

/* Write to the tables why a counter is unknown in the intervals of this process. */
void interval_counter_note(const char *counter, const char *obstacle)
{
    struct text t = {0};

    text_add(&t, "{\"rank\": %d, \"missing_counter\": {\"counter\": \"%s\", \"reason\": \"%s\"}}\n",
             recorder.rank, counter, obstacle);
    file_write_line(&t);
    text_free(&t);
}

/* Return true if a descriptor's number leaves the program most of the numbers that it may use. */
static bool leaves_descriptors(int descriptor)
{
    struct rlimit most;

    return getrlimit(RLIMIT_NOFILE, &most) == 0 && (rlim_t)descriptor < most.rlim_cur / 4 * 3;
}

/* Read the time that the thread has waited in the run queue in ns. Returns -1 if it is unknown. */
static int64_t queue_read(const struct fd_guard *f)
{
    char text[96];
    const ssize_t length =
        fd_guard_is_valid(f) ? pread(f->descriptor, text, sizeof text - 1, 0) : 0;
    char *end;

    if (length <= 0)
        return -1;
    text[length] = '\0';
    strtoll(text, &end, 10); /* time on processors, which is updated only at clock ticks */
    return strtoll(end, NULL, 10);
}

static struct fd_guard queue_open(void)
{
    const int descriptor = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    struct fd_guard f = {.descriptor = -1};

    if (descriptor >= 0)
        f = fd_guard_register(descriptor);
    if (f.descriptor >= 0 && !leaves_descriptors(f.descriptor)) {
        close(f.descriptor);
        f.descriptor = -1;
    }
    return f;
}

static void sources_open(struct interval *i)
{
    const char *obstacle = NULL;

    i->perf = (struct perf_counters){.descriptors = {-1, -1}};
    if (!atomic_load(&queue_is_missing)) {
        i->queue = queue_open();
        if (queue_read(&i->queue) < 0 && !atomic_exchange(&queue_is_missing, true))
            interval_counter_note("queue", "/proc/thread-self/schedstat cannot be read");
    }
    if (atomic_load(&perf_is_missing))
        return;
    perf_counters_open(&i->perf, &obstacle);
    if (i->perf.descriptors[0] >= 0 && !leaves_descriptors(i->perf.descriptors[1])) {
        perf_counters_close(&i->perf);
        obstacle = "the process may open too few files";
    }
    if (obstacle != NULL && !atomic_exchange(&perf_is_missing, true))
        interval_counter_note("instructions", obstacle);
}

/* Return the state of the calling thread, or NULL if memory is insufficient. */
struct interval *interval_counter_open(void)
{
    const int kept = errno;
    struct interval *const i = memory_allocate(sizeof *i);

    if (i == NULL)
        return NULL;
    i->left_ns = INT64_MAX;
    i->shape = UINT32_MAX;
    i->expected = UINT64_MAX;
    i->queue.descriptor = -1;
    sources_open(i);
    errno = kept;
    return i;
}

static int64_t time_in_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

void interval_counter_read(const struct interval *i, struct counters *now)
{
    struct timespec processor = {0}, process = {0};
    struct rusage used = {0};
    int64_t counts[2] = {-1, -1};
    const int number = sched_getcpu(), kept = errno;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &process);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &processor);
    getrusage(RUSAGE_THREAD, &used);
    if (i->perf.descriptors[0] >= 0)
        perf_counters_read(&i->perf, counts);
    *now = (struct counters){.processor_ns = time_in_ns(&processor),
                             .process_ns = time_in_ns(&process),
                             .queue_ns = queue_read(&i->queue),
                             .instructions = counts[0],
                             .cycles = counts[1],
                             .voluntary = used.ru_nvcsw,
                             .involuntary = used.ru_nivcsw,
                             .minor_faults = used.ru_minflt,
                             .major_faults = used.ru_majflt,
                             .processor = number >= 0 && number < UNKNOWN_PROCESSOR
                                              ? (uint16_t)number
                                              : (uint16_t)UNKNOWN_PROCESSOR,
                             .gc_ns = i->gc_ns,
                             .at_ns = now_ns()};
    errno = kept;
}

void interval_counter_close(struct interval *i)
{
    if (i == NULL)
        return;
    if (fd_guard_is_valid(&i->queue))
        close(i->queue.descriptor);
    perf_counters_close(&i->perf);
    memory_free(i);
}
