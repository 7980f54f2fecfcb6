/* The limit on processor time of this process's control group.
 *
 * A limit may belong to the group or to a group above it, in version 1 or 2 of control groups. The
 * nearest group with a limit counts. A missing file means that there is no limit.
 */
#include <stdlib.h>
#include <string.h>

#include "tracefile/tracefile.h"

static const char *const limit_files[] = {"cpu.max", "cpu.cfs_quota_us"}; /* version 2 and 1 */
enum { DEFAULT_PERIOD_US = 100000 };

/* Read the number at the begin of a group's file, and for version 2 the number behind it. Returns
 * false if the file is missing or has no limit: "max" and -1 are no limits. */
static bool numbers_read(const char *group, const char *file, int64_t *first, int64_t *second)
{
    struct text path = {0}, content = {0};

    text_add(&path, "%s/%s", group, file);
    if (path.bytes != NULL && text_read(&content, path.bytes)) {
        char *end;

        *first = strtoll(content.bytes, &end, 10);
        *second = strtoll(end, NULL, 10);
    }
    text_free(&path);
    text_free(&content);
    return *first > 0;
}

static bool limit_read(const char *group, struct control_group *g)
{
    int64_t period = 0, unused = 0;

    g->quota_us = 0;
    g->period_us = DEFAULT_PERIOD_US;
    if (!numbers_read(group, limit_files[g->first_version], &g->quota_us, &period))
        return false;
    if (g->first_version)
        numbers_read(group, "cpu.cfs_period_us", &period, &unused);
    if (period > 0)
        g->period_us = period;
    return true;
}

/* Remove the last name of a path. Returns false if only the first `base` bytes are left. */
static bool path_shorten(struct text *path, size_t base)
{
    if (path->length <= base)
        return false;
    do
        path->length--;
    while (path->length > base && path->bytes[path->length] != '/');
    path->bytes[path->length] = '\0';
    return true;
}

/* Find the nearest group with a limit, from the group `path` below `base` upwards. */
static bool group_search(const char *base, const char *path, bool first_version,
                         struct control_group *g)
{
    struct text *const group = &g->path;

    g->first_version = first_version;
    group->length = 0;
    text_add(group, "%s%s", base, path);
    bool found = group->bytes != NULL && !group->cut && limit_read(group->bytes, g);

    while (!found && group->bytes != NULL && path_shorten(group, strlen(base)))
        found = limit_read(group->bytes, g);
    return found;
}

/* Find the nearest group of this process with a limit. The caller frees the path. */
bool control_group_find(struct control_group *g)
{
    struct text groups = {0};
    bool found = false;

    *g = (struct control_group){0};
    if (text_read(&groups, "/proc/self/cgroup"))
        for (char *rest = groups.bytes, *line; !found && (line = strsep(&rest, "\n")) != NULL;) {
            char *const controllers = strchr(line, ':');
            char *const path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;

            if (path == NULL)
                continue;
            if (strncmp(controllers, "::", 2) == 0)
                found = group_search("/sys/fs/cgroup", path + 1, false, g) ||
                        group_search("/sys/fs/cgroup/unified", path + 1, false, g);
            else if (strstr(controllers, ":cpu,") != NULL || strstr(controllers, ":cpu:") != NULL ||
                     strstr(controllers, ",cpu:") != NULL || strstr(controllers, ",cpu,") != NULL)
                found = group_search("/sys/fs/cgroup/cpu", path + 1, true, g);
        }
    text_free(&groups);
    return found;
}
