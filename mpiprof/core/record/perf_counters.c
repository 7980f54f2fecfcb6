/* Instructions and cycles of the calling thread, counted by the kernel in user space only.
 *
 * Both events are one group, which one read returns. The program may close descriptors that it did
 * not open, and all descriptors of this type have the same inode. So each read is preceded by a
 * query of the event's id, which other descriptors reject.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/base.h"
#include "record/interval_counters.h"
#include "timing/timing.h"
#include "tracefile/tracefile.h"

static int event_open(uint64_t config, int group)
{
    struct perf_event_attr a = {.size = PERF_ATTR_SIZE_VER0,
                                .type = PERF_TYPE_HARDWARE,
                                .config = config,
                                .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
                                               PERF_FORMAT_TOTAL_TIME_RUNNING,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    const int descriptor = perf_event_create(&a, group);

    return descriptor < 0 ? -1 : fd_guard_register(descriptor).descriptor;
}

/* Open the events of the calling thread. `obstacle` returns the reason if they are not available. */
void perf_counters_open(struct perf_counters *p, const char **obstacle)
{
    *p = (struct perf_counters){.descriptors = {-1, -1}};
    *obstacle = perf_event_obstacle();
    if (*obstacle != NULL)
        return;
    p->descriptors[0] = event_open(PERF_COUNT_HW_INSTRUCTIONS, -1);
    if (p->descriptors[0] >= 0)
        p->descriptors[1] = event_open(PERF_COUNT_HW_CPU_CYCLES, p->descriptors[0]);
    const int reason = errno;

    if (p->descriptors[1] >= 0 && ioctl(p->descriptors[0], PERF_EVENT_IOC_ID, &p->id) == 0)
        return;
    perf_counters_close(p);
    *obstacle = perf_event_failure(reason);
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
