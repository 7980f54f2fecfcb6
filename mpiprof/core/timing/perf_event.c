/* Access to the kernel's performance events of the calling thread.
 *
 * A sandbox may kill a process that calls perf_event_open, and a call that finds out does so, too.
 * The call is therefore not made under any seccomp filter, even if the filter would allow it.
 * Called when a thread makes its first call of MPI, and in MPI_Init.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "timing/timing.h"
#include "tracefile/tracefile.h"

enum { CAPABILITY_ADMIN = 21, CAPABILITY_PERFMON = 38, MOST_PARANOID = 2 };

static const char *text_after(const struct text *t, const char *label)
{
    const char *const found = t->bytes != NULL ? strstr(t->bytes, label) : NULL;

    return found != NULL ? found + strlen(label) : NULL;
}

/* Return the reason not to call perf_event_open, or NULL. */
const char *perf_event_obstacle(void)
{
    struct text status = {0}, paranoid = {0};
    const bool known = text_read(&status, "/proc/thread-self/status");
    const char *const filter = text_after(&status, "\nSeccomp:");
    const char *const able = text_after(&status, "\nCapEff:");
    const bool filtered = filter != NULL && strtol(filter, NULL, 10) != 0;
    const uint64_t capabilities = able != NULL ? strtoull(able, NULL, 16) : 0;
    const bool privileged = (capabilities >> CAPABILITY_ADMIN & 1) != 0 ||
                            (capabilities >> CAPABILITY_PERFMON & 1) != 0;
    const bool exists = text_read(&paranoid, "/proc/sys/kernel/perf_event_paranoid");
    const bool refused = exists && !privileged && strtol(paranoid.bytes, NULL, 10) > MOST_PARANOID;

    text_free(&status);
    text_free(&paranoid);
    return !known     ? "/proc cannot be read"
           : filtered ? "a seccomp filter is active"
           : !exists  ? "the kernel has no performance events"
           : refused  ? "kernel.perf_event_paranoid is above 2"
                      : NULL;
}

/* Open an event of the calling thread, which requires perf_event_obstacle() == NULL. Returns a
 * descriptor, or -1 with errno. group: descriptor of the first event of a group, or -1. */
int perf_event_create(struct perf_event_attr *event, int group)
{
    const unsigned long flags = PERF_FLAG_FD_CLOEXEC;

    return (int)syscall(SYS_perf_event_open, event, 0, -1, group, flags);
}

/* Return the reason for an errno of perf_event_create. */
const char *perf_event_failure(int error)
{
    return error == ENOENT || error == EOPNOTSUPP
               ? "the processor or the virtual machine has no such counters"
           : error == EACCES || error == EPERM ? "the kernel refuses perf_event_open"
           : error == ENOSYS                   ? "the kernel has no performance events"
                                               : "perf_event_open failed";
}
