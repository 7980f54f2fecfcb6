/* Samples of the program's location outside MPI, every few milliseconds, without a signal.
 *
 * A signal would interrupt the program's sleeps. In a compiled program the kernel samples
 * (perf_event_open): it writes registers and the top of the stack of MPI_Init's thread to a buffer
 * while that thread is on a processor. The buffer is read when the thread next calls MPI, and
 * callers are then found by call frame information (sampled_stack.c). Where that ends, for example
 * beyond the copied part of a stack, the callers are those that the kernel found by frame pointers.
 * In a Python program a sampling thread acquires the
 * GIL and reads the main thread's frames. If the main thread runs C code without releasing the GIL,
 * the whole time counts as one long sample.
 *
 * The sampling thread makes no MPI calls. It ends with MPI_Finalize or with Python, whichever is
 * first.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/recorder.h"
#include "callsite/callsite.h"
#include "callsite/frame_info.h"
#include "timing/timing.h"

/* Ranks on a node share the memory that the kernel lets a user lock for events, so a larger buffer
 * requires that the process may lock it by itself. */
enum { MOST_PAGES = 512, SHARED_PAGES = 64, LEAST_PAGES = 4, STACK_BYTES = 4096 };

static sampler_found *found;
static int64_t period_ns; /* between two samples */

/* ---- Python: ticks */

static atomic_bool ticking;
static pthread_t ticker;
static pid_t ticker_of;     /* a forked child has no such thread */
static object *main_thread; /* Python's main thread state, which lives as long as Python */

static void *ticks_run(void *unused)
{
    const struct timespec pause = {period_ns / 1000000000, period_ns % 1000000000};

    while (nanosleep(&pause, NULL), atomic_load(&ticking)) {
        const int lock = py.PyGILState_Ensure();

        if (atomic_load(&ticking) && atomic_load(&recorder.active)) {
            struct site *const place = python_site_of(main_thread);

            if (place != NULL)
                found(place, now_ns(), 0);
        }
        py.PyGILState_Release(lock);
    }
    return unused;
}

/* Stop the sampling thread. That thread may wait for the GIL, so this thread releases the GIL. */
static void ticks_stop(void)
{
    if (!atomic_exchange(&ticking, false) || ticker_of != getpid())
        return;
    object *const kept =
        py.Py_IsInitialized() && py.PyGILState_Check() ? py.PyEval_SaveThread() : NULL;

    pthread_join(ticker, NULL);
    if (kept != NULL)
        py.PyEval_RestoreThread(kept);
}

static const char *ticks_start(void)
{
    sigset_t all, before;

    main_thread = py.PyGILState_GetThisThreadState();
    if (main_thread == NULL || syscall(SYS_gettid) != getpid())
        return "MPI_Init was not called on Python's main thread";
    if (strstr(py.Py_GetVersion(), "free-threading") != NULL)
        return "a Python build without the GIL";
    if (!python_hook_at_exit(ticks_stop))
        return "Python already has other threads, or its thread states cannot be read";
    ticker_of = getpid();
    atomic_store(&ticking, true);
    sigfillset(&all); /* the program's signals must not be delivered to this thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&ticker, NULL, ticks_run, NULL);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return NULL;
    atomic_store(&ticking, false);
    return strerror(error);
}

/* ---- kernel samples */

#if defined(__x86_64__)
/* The kernel's registers of a sample, in its order, as numbers of call frame information. */
static const unsigned char register_numbers[REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, INSTRUCTION,
                                                          8, 9, 10, 11, 12, 13, 14, 15};
enum { REGISTER_MASK = 0xff01ff };
#else
static const unsigned char register_numbers[REGISTERS];
enum { REGISTER_MASK = 0 }; /* callers by frame pointers only */
#endif
enum {
    SAMPLE_TYPE = PERF_SAMPLE_IP | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN |
    (REGISTER_MASK != 0 ? PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER : 0)
};

static struct perf_event_mmap_page *buffer;
static size_t buffer_bytes; /* of the samples, which follow the first page */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Map the largest buffer that the limits on locked memory allow. */
static const char *buffer_map(int descriptor)
{
    struct rlimit limit = {0};

    getrlimit(RLIMIT_MEMLOCK, &limit);
    for (size_t pages = MOST_PAGES; pages >= LEAST_PAGES; pages /= 2) {
        const size_t bytes = (pages + 1) * page_bytes();

        if (pages > SHARED_PAGES && bytes > limit.rlim_cur)
            continue;
        void *const found_at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

        if (found_at != MAP_FAILED) {
            buffer_bytes = pages * page_bytes();
            buffer = found_at;
            return NULL;
        }
    }
    return strerror(errno);
}

static const char *perf_start(void)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .sample_period = (uint64_t)period_ns,
                                .sample_type = SAMPLE_TYPE,
                                .sample_max_stack = MOST_FRAMES,
                                .exclude_callchain_kernel = 1,
                                .sample_regs_user = REGISTER_MASK,
                                .sample_stack_user = REGISTER_MASK != 0 ? STACK_BYTES : 0,
                                .exclude_kernel = 1,
                                .exclude_hv = 1,
                                .use_clockid = 1,
                                .clockid = CLOCK_MONOTONIC};
    const char *const obstacle = perf_event_obstacle();

    if (obstacle != NULL)
        return obstacle;
    int descriptor = perf_event_create(&a, -1);

    if (descriptor < 0) { /* kernel.perf_event_max_stack may be lower, and an old kernel has none */
        a.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME;
        a.sample_max_stack = 0;
        a.exclude_callchain_kernel = 0;
        a.sample_regs_user = 0;
        a.sample_stack_user = 0;
        descriptor = perf_event_create(&a, -1);
    }
    if (descriptor < 0)
        return perf_event_failure(errno);
    const char *const failure = buffer_map(descriptor);

    close(descriptor); /* the mapping keeps the event open; a forked child has none */
    return failure;
}

/* Copy from the ring buffer. */
static void perf_copy(void *to, uint64_t from, size_t bytes)
{
    const char *const data = (const char *)buffer + page_bytes();
    const size_t at = from % buffer_bytes;
    const size_t first = bytes < buffer_bytes - at ? bytes : buffer_bytes - at;

    memcpy(to, data + at, first);
    memcpy((char *)to + first, data, bytes - first);
}

/* A sample as the kernel writes it, up to the addresses, whose number varies. */
struct kernel_sample {
    struct perf_event_header head;
    uint64_t address, at;
    uint64_t words[1 + MOST_FRAMES + 1 + 1 + REGISTERS + 1 + STACK_BYTES / 8 + 1];
};

/* Read registers and stack that follow the addresses. Returns false if the sample has none. */
static bool sample_frame(const uint64_t *words, size_t count, struct frame *frame)
{
    const size_t stack_words = STACK_BYTES / sizeof *words;

    if (REGISTER_MASK == 0 || count < 1 + REGISTERS + 1 + stack_words + 1 ||
        words[0] != PERF_SAMPLE_REGS_ABI_64 || words[1 + REGISTERS] != STACK_BYTES)
        return false;
    for (int i = 0; i < REGISTERS; i++)
        frame->registers[register_numbers[i]] = words[1 + i];
    frame->stack_start = frame->registers[STACK_POINTER];
    frame->stack = (const unsigned char *)(words + 1 + REGISTERS + 1);
    frame->stack_bytes = words[1 + REGISTERS + 1 + stack_words];
    return frame->stack_bytes <= STACK_BYTES;
}

/* Return the site of a sample, or NULL if there are too many. */
static struct site *sample_site(struct kernel_sample *s)
{
    const size_t before = offsetof(struct kernel_sample, words);
    const size_t size = s->head.size > before ? (s->head.size - before) / sizeof *s->words : 0;
    const size_t chain = size > 0 && s->words[0] < size ? s->words[0] : 0;
    const uint64_t *const addresses = s->words + 1; /* begins with a mark of the kernel */
    struct frame frame = {.registers[INSTRUCTION] = s->address};
    uint64_t found[MOST_FRAMES] = {s->address + 1};
    int count = 1, reliable = 1;
    bool complete = false;

    if (size > 0 && sample_frame(addresses + chain, size - 1 - chain, &frame))
        count = reliable = sampled_stack_find(&frame, found, MOST_FRAMES, &complete);
    size_t next = complete ? chain : 1;

    while (next < chain && addresses[next] != frame.registers[INSTRUCTION])
        next++;
    while (++next < chain && count < MOST_FRAMES)
        found[count++] = addresses[next];
    return callsite_at(found, count, reliable);
}

/* Process the kernel's samples after `since`. */
void sampler_drain(int64_t since)
{
    static SPARSE struct kernel_sample
        sample; /* too large for a small stack; only the sampled thread reads */

    if (buffer == NULL)
        return;
    const uint64_t end = __atomic_load_n(&buffer->data_head, __ATOMIC_ACQUIRE);

    for (uint64_t at = buffer->data_tail; at < end; at += sample.head.size) {
        perf_copy(&sample, at, sizeof sample.head);
        if (sample.head.size < sizeof sample.head)
            break;
        if (sample.head.type == PERF_RECORD_SAMPLE && sample.head.size <= sizeof sample) {
            perf_copy(&sample, at, sample.head.size);
            struct site *const site =
                (int64_t)sample.at > since /* not within MPI */ ? sample_site(&sample) : NULL;

            if (site != NULL)
                found(site, (int64_t)sample.at, period_ns);
        }
    }
    __atomic_store_n(&buffer->data_tail, end, __ATOMIC_RELEASE);
}

/* ---- start and end */

enum { LEAST_PERIOD_US = 100, MOST_PERIOD_US = 60000000 };

/* Start sampling. Returns the reason if that is impossible, or NULL. */
const char *sampler_start(sampler_found *to)
{
    const int64_t period_us = recorder.options.where_period_us > LEAST_PERIOD_US
                                  ? recorder.options.where_period_us
                                  : LEAST_PERIOD_US;

    found = to;
    period_ns = (period_us < MOST_PERIOD_US ? period_us : MOST_PERIOD_US) * 1000;
    return python_site_is_initialised() ? ticks_start() : perf_start();
}

void sampler_stop(void)
{
    ticks_stop();
    if (buffer != NULL)
        munmap(buffer, buffer_bytes + page_bytes());
    buffer = NULL;
}
