/* The processors on which the thread that called MPI_Init may run, in the tables: in the process's
 * line, and in a line for each later change.
 *
 * A user, a batch system or a library of threads may bind a running thread. The kernel limits an
 * affinity to the processors of the control group. A reading takes less than 1 us. It is made beside
 * a reading of counters if PAUSE_NS have passed since the last one, and when MPI ends. So a change
 * has happened between two readings, whose times are in its line.
 *
 * Threads: any; only the thread that called MPI_Init reads.
 */
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/recorder.h"
#include "tracefile/tracefile.h"

enum { MOST_PROCESSORS = 1 << 16, MOST_CHANGES = 100, PAUSE_NS = 100000000 };

static _Atomic int64_t next_ns = INT64_MAX; /* time of the next reading */
static long init_thread;
static uint64_t last_hash; /* of the processors at the last reading */
static int64_t last_ns;    /* its time */
static int changes;

/* Add the numbers of the processors, or nothing if they are unknown. */
static void processors_add(struct text *t)
{
    const char *comma = "";
    cpu_set_t *set = NULL;
    size_t room = CPU_SETSIZE;

    for (; set == NULL && room <= MOST_PROCESSORS; room *= 2) {
        set = memory_allocate(CPU_ALLOC_SIZE(room));
        if (set == NULL || sched_getaffinity(0, CPU_ALLOC_SIZE(room), set) == 0)
            break;
        memory_free(set); /* the kernel has more processors */
        set = NULL;
    }
    for (size_t i = 0; set != NULL && i < room; i++)
        if (CPU_ISSET_S(i, CPU_ALLOC_SIZE(room), set)) {
            text_add(t, "%s%zu", comma, i);
            comma = ", ";
        }
    memory_free(set);
}

static void reading_end(const struct text *processors, int64_t now)
{
    last_hash = processors->bytes != NULL ? hash_text(1, processors->bytes, -1) : 0;
    last_ns = now;
    atomic_store(&next_ns, changes < MOST_CHANGES ? now + PAUSE_NS : INT64_MAX);
}

/* Add the processors at the start to the process's line. */
void affinity_start(struct text *t)
{
    struct text processors = {0};

    init_thread = syscall(SYS_gettid);
    processors_add(&processors);
    text_add(t, "%s", processors.bytes != NULL ? processors.bytes : "");
    reading_end(&processors, now_ns());
    text_free(&processors);
}

static void reading_make(int64_t now)
{
    const int program_errno = errno;
    const uint64_t before_hash = last_hash;
    const int64_t before_ns = last_ns;
    struct text processors = {0}, t = {0};

    processors_add(&processors);
    if (processors.bytes == NULL || processors.cut) {
        atomic_store(&next_ns, INT64_MAX); /* unknown now and later */
    } else {
        changes += hash_text(1, processors.bytes, -1) != before_hash;
        reading_end(&processors, now);
    }
    if (last_hash != before_hash) {
        text_add(&t, "{\"rank\": %d, \"affinity\": {\"after_ns\": %lld, \"at_ns\": %lld, ",
                 recorder.rank, (long long)before_ns, (long long)now);
        text_add(&t, "\"processors\": [%s]}}\n", processors.bytes);
        if (!t.cut)
            file_write_line(&t);
    }
    text_free(&t);
    text_free(&processors);
    errno = program_errno;
}

/* Read the processors, and write a line if they have changed. */
void affinity_read(int64_t now)
{
    if (init_thread == syscall(SYS_gettid))
        reading_make(now);
}

/* Read the processors if a reading is due. */
void affinity_check(int64_t now)
{
    if (now >= atomic_load_explicit(&next_ns, memory_order_relaxed))
        affinity_read(now);
}
