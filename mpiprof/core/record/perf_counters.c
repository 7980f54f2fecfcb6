/* Instructions and cycles of the calling thread, counted by the kernel in user space only.
 *
 * Both events are one group, which one read returns. The program may close descriptors that it did
 * not open, and all descriptors of this type have the same inode. So each read is preceded by a
 * query of the event's id, which other descriptors reject.
 *
 * A sandbox may kill a process that calls perf_event_open, so the call is not made under a seccomp
 * filter.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "record/interval_counters.h"
#include "tracefile/tracefile.h"

enum { CAPABILITY_ADMIN = 21, CAPABILITY_PERFMON = 38, MOST_PARANOID = 2 };

static const char *text_after(const struct text *t, const char *label)
{
    const char *const found = t->bytes != NULL ? strstr(t->bytes, label) : NULL;

    return found != NULL ? found + strlen(label) : NULL;
}

/* Return the reason not to call perf_event_open, or NULL. */
static const char *call_obstacle(void)
{
    struct text status = {0}, paranoid = {0};
    const bool known = meta_read("/proc/thread-self/status", &status);
    const char *const filter = text_after(&status, "\nSeccomp:");
    const char *const able = text_after(&status, "\nCapEff:");
    const bool filtered = filter != NULL && strtol(filter, NULL, 10) != 0;
    const uint64_t capabilities = able != NULL ? strtoull(able, NULL, 16) : 0;
    const bool privileged = (capabilities >> CAPABILITY_ADMIN & 1) != 0 ||
                            (capabilities >> CAPABILITY_PERFMON & 1) != 0;
    const bool exists = meta_read("/proc/sys/kernel/perf_event_paranoid", &paranoid);
    const bool refused = exists && !privileged && strtol(paranoid.bytes, NULL, 10) > MOST_PARANOID;

    text_free(&status);
    text_free(&paranoid);
    return !known     ? "/proc cannot be read"
           : filtered ? "a seccomp filter is active"
           : !exists  ? "the kernel has no performance events"
           : refused  ? "kernel.perf_event_paranoid is above 2"
                      : NULL;
}

static int event_open(uint64_t config, int group)
{
    struct perf_event_attr a = {.size = PERF_ATTR_SIZE_VER0,
                                .type = PERF_TYPE_HARDWARE,
                                .config = config,
                                .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
                                               PERF_FORMAT_TOTAL_TIME_RUNNING,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    const int descriptor =
        (int)syscall(SYS_perf_event_open, &a, 0, -1, group, (unsigned long)PERF_FLAG_FD_CLOEXEC);

    return descriptor < 0 ? -1 : fd_guard_register(descriptor).descriptor;
}

/* Open the events of the calling thread. `obstacle` returns the reason if they are not available. */
void perf_counters_open(struct perf_counters *p, const char **obstacle)
{
    *p = (struct perf_counters){.descriptors = {-1, -1}};
    *obstacle = call_obstacle();
    if (*obstacle != NULL)
        return;
    p->descriptors[0] = event_open(PERF_COUNT_HW_INSTRUCTIONS, -1);
    if (p->descriptors[0] >= 0)
        p->descriptors[1] = event_open(PERF_COUNT_HW_CPU_CYCLES, p->descriptors[0]);
    const int reason = errno;

    if (p->descriptors[1] >= 0 && ioctl(p->descriptors[0], PERF_EVENT_IOC_ID, &p->id) == 0)
        return;
    perf_counters_close(p);
    *obstacle = reason == ENOENT || reason == EOPNOTSUPP
                    ? "the processor or the virtual machine has no such counters"
                : reason == EACCES || reason == EPERM ? "the kernel refuses perf_event_open"
                                                      : "perf_event_open failed";
}

static bool is_open(const struct perf_counters *p)
{
    uint64_t id = 0;

    return p->descriptors[0] >= 0 && ioctl(p->descriptors[0], PERF_EVENT_IOC_ID, &id) == 0 &&
           id == p->id;
}

/* Read instructions and cycles, or -1 for both. If the kernel counted them only part of the time,
 * the values are extrapolated. */
void perf_counters_read(const struct perf_counters *p, int64_t values[2])
{
    struct {
        uint64_t count, enabled_ns, running_ns, values[2];
    } group;
    const bool complete = is_open(p) &&
                          read(p->descriptors[0], &group, sizeof group) == (ssize_t)sizeof group &&
                          group.count == 2 && group.running_ns > 0;
    const double scale = complete ? (double)group.enabled_ns / (double)group.running_ns : 0;

    for (int i = 0; i < 2; i++)
        values[i] = !complete ? -1
                    : group.enabled_ns == group.running_ns
                        ? (int64_t)group.values[i]
                        : (int64_t)((double)group.values[i] * scale);
}

/* Close the events, unless the program has closed the first one. */
void perf_counters_close(struct perf_counters *p)
{
    if (p->id == 0 || is_open(p))
        for (int i = 0; i < 2; i++)
            if (p->descriptors[i] >= 0)
                close(p->descriptors[i]);
    p->descriptors[0] = p->descriptors[1] = -1;
}
