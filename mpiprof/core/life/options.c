/* What the launcher asked for, by environment variables; and leaving the environment again.
 *
 * Read once, before any call is recorded; the texts live as long as the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/memory.h"
#include "base/recorder.h"
#include "base/text.h"
#include "life/options.h"
#include "record/python.h"

static const char *text_option(const char *name, const char *otherwise)
{
    const char *const value = getenv(name);

    const char *const kept = value != NULL && value[0] != '\0' ? memory_text(value) : NULL;

    return kept != NULL ? kept : otherwise;
}

void options_read(void)
{
    struct options *const o = &recorder.options;
    const char *const python = text_option("MPIPROF_PYTHON_SITES", "auto");

    o->trace = text_option("MPIPROF_TRACE", "");
    o->job = text_option("MPIPROF_JOB", "");
    o->alone = text_option("MPIPROF_ALONE", "");
    o->program = text_option("MPIPROF_PROGRAM", program_invocation_short_name);
    o->base = text_option("MPIPROF_BASE", "mpiprof-trace");
    o->command = text_option("MPIPROF_COMMAND", "[]");
    o->machine = text_option("MPIPROF_MACHINE", NULL);
    o->skip_packages = text_option("MPIPROF_SKIP_PACKAGES", NULL);
    o->version = text_option("MPIPROF_VERSION", "");
    o->sample = (unsigned)strtoul(text_option("MPIPROF_SAMPLE", "1"), NULL, 10);
    o->stack = atoi(text_option("MPIPROF_STACK", "1"));
    o->stack = o->stack < 1 ? 1 : o->stack;
    o->limit = strtoll(text_option("MPIPROF_LIMIT", "1073741824"), NULL, 10);
    o->alike = atoi(text_option("MPIPROF_ALIKE", "64"));
    o->runs = atoi(text_option("MPIPROF_RUNS", "16"));
    o->summary = strcmp(text_option("MPIPROF_RECORD", "events"), "summary") == 0;
    o->partial = getenv("MPIPROF_PARTIAL") != NULL;
    o->several = getenv("MPIPROF_PARTS") != NULL;
    o->together = getenv("MPIPROF_TOGETHER") != NULL;
    o->unrecorded = getenv("MPIPROF_UNRECORDED") != NULL;
    o->quiet = getenv("MPIPROF_QUIET") != NULL;
    o->python = strcmp(python, "always") == 0  ? PYTHON_ALWAYS
                : strcmp(python, "never") == 0 ? PYTHON_NEVER
                                               : PYTHON_AUTO;
}

static bool is_one_thread(void)
{
    const int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat s;
    const bool one = guard_file_status(tasks, &s) && s.st_nlink == 3; /* itself, "..", a thread */

    if (tasks >= 0)
        close(tasks);
    return one;
}

/* Later children of this process run bare; what others have preloaded stays.
 *
 * Another thread may be in getenv: to take a variable out moves all behind it, so that it might
 * miss one that is there. Giving a new value to one that is there stores one pointer, under the
 * library's lock, and the old text stays. So the variable is only taken out where there is one
 * thread, as there is in most programs before MPI_Init; else it stays behind empty, which to the
 * loader means the same. */
void options_leave_environment(void)
{
    const char *const own = getenv("MPIPROF_LIBRARY"), *const all = getenv("LD_PRELOAD");
    struct text kept = {0};

    if (own == NULL || all == NULL)
        return;
    for (const char *s = all; *s != '\0';) {
        const size_t length = strcspn(s, ": ");

        if (length > 0 && (strlen(own) != length || strncmp(s, own, length) != 0))
            text_add(&kept, "%s%.*s", kept.length > 0 ? ":" : "", (int)length, s);
        s += length + (s[length] != '\0');
    }
    const char *const value = kept.length > 0 ? kept.bytes : is_one_thread() ? NULL : "";

    if (value != NULL)
        setenv("LD_PRELOAD", value, 1);
    else
        unsetenv("LD_PRELOAD");
    python_forget_preload(value);
    text_free(&kept);
}
