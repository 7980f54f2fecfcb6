/* The quota of the process's control group, and the time for which it has stopped the group, as lines
 * of the tables.
 *
 * A user or a batch system may limit a running process, or move it to a limited group. So the group
 * is read again beside a reading of counters if PAUSE_NS have passed, and when MPI ends. A reading
 * takes some 50 us. A line is written after a change of the quota, and later after each tenth of the
 * time since the first reading in which the group was stopped. So their number is the logarithm of
 * the run time.
 *
 * Threads: any; one reads at a time.
 */
#include "record/quota_use.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/recorder.h"
#include "tracefile/tracefile.h"

enum { PAUSE_NS = 1000000000, PARTS = 10 };

static _Atomic int64_t next_ns = INT64_MAX; /* INT64_MAX while a thread reads */
static int64_t first_ns, written_ns;        /* of readings */
static uint64_t group_hash;       /* of the limit and the group's path, 0 without a limit */
static int64_t stopped_before_ns; /* of the group, when the process was first seen in it */
static int64_t written_stopped_ns;

/* Return the time for which the quota has stopped a group, or 0 if it is unknown. */
static int64_t stopped_read(const struct control_group *g)
{
    const char *const label = g->first_version ? "throttled_time " : "throttled_usec ";
    struct text path = {0}, content = {0};
    int64_t ns = 0;

    text_add(&path, "%s/cpu.stat", g->path.bytes);
    if (!path.cut && text_read(&content, path.bytes)) {
        const char *const value = strstr(content.bytes, label);

        if (value != NULL)
            ns = strtoll(value + strlen(label), NULL, 10) * (g->first_version ? 1 : 1000);
    }
    text_free(&path);
    text_free(&content);
    return ns;
}

static void line_write(const struct control_group *g, int64_t now, int64_t stopped_ns)
{
    struct text t = {0};

    text_add(&t, "{\"rank\": %d, \"quota\": {\"at_ns\": %lld, \"processors\": %.3f, ",
             recorder.rank, (long long)now,
             g->quota_us > 0 ? (double)g->quota_us / (double)g->period_us : 0.0);
    text_add(&t, "\"stopped_ns\": %lld, \"group\": ", (long long)stopped_ns);
    text_json(&t, g->path.bytes != NULL ? g->path.bytes : "", -1);
    text_add(&t, "}}\n");
    if (!t.cut)
        file_write_line(&t);
    text_free(&t);
    written_ns = now;
    written_stopped_ns = stopped_ns;
}

static void group_read(int64_t now, bool is_end)
{
    struct control_group group;
    const bool is_limited = control_group_find(&group);
    const int64_t of_group = is_limited ? stopped_read(&group) : 0;
    const uint64_t before_hash = group_hash;

    group_hash = is_limited ? hash_mix(hash_text(1, group.path.bytes, -1),
                                       (uint64_t)(group.quota_us * 1000 / group.period_us))
                            : 0;
    if (first_ns == 0 || group_hash != before_hash)
        stopped_before_ns = of_group;
    const int64_t stopped_ns = of_group - stopped_before_ns;
    const bool is_due = is_end || now - written_ns >= (now - first_ns) / PARTS;

    if (first_ns == 0)
        first_ns = now; /* the process's line has the quota at the start */
    else if (group_hash != before_hash || (stopped_ns > written_stopped_ns && is_due))
        line_write(&group, now, stopped_ns);
    text_free(&group.path);
}

static void quota_read(int64_t now, bool is_end)
{
    const int program_errno = errno;
    int64_t due = atomic_load(&next_ns);

    if (now < due && !is_end)
        return;
    if (due == INT64_MAX || !atomic_compare_exchange_strong(&next_ns, &due, INT64_MAX))
        return;
    group_read(now, is_end);
    if (!is_end)
        atomic_store(&next_ns, now + PAUSE_NS);
    errno = program_errno;
}

void quota_use_start(void)
{
    atomic_store(&next_ns, 0);
    quota_read(now_ns(), false);
}

/* Read the group if a reading is due. */
void quota_use_check(int64_t now)
{
    if (now >= atomic_load_explicit(&next_ns, memory_order_relaxed))
        quota_read(now, false);
}

void quota_use_end(void)
{
    quota_read(now_ns(), true);
}
