/* Options that the launcher passes in environment variables, and removal of the recorder from
 * LD_PRELOAD.
 *
 * Options are read once, before any call is recorded. Their texts live as long as the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/recorder.h"
#include "callsite/callsite.h"
#include "init/init.h"

/* Variables, named without the prefix MPIPROF_: default for a missing or empty variable, and
 * whether it may affect the selection of an algorithm. Ranks that differ in a variable with `true`
 * keep native algorithms (fingerprint.c). The others control recording, or describe the launch. */
#define VARIABLES(X)                                                                               \
    X(ALIKE, "64", false)                                                                          \
    X(ALONE, "", false)                                                                            \
    X(AUTO, NULL, true)                                                                            \
    X(BASE, "mpiprof-trace", false)                                                                \
    X(COMMAND, "[]", false)                                                                        \
    X(INVOCATION, "python -m mpiprof", false)                                                      \
    X(JOB, "", false)                                                                              \
    X(LEARN, NULL, true)                                                                           \
    X(LEARNED, NULL, false)                                                                        \
    X(LIBRARY, NULL, false)                                                                        \
    X(LIMIT, "1073741824", false)                                                                  \
    X(MACHINE, NULL, false)                                                                        \
    X(MARKS, NULL, false)                                                                          \
    X(NODE, NULL, false)                                                                           \
    X(NODE_FILES_ABOVE, "32", false)                                                               \
    X(PARTIAL, NULL, true)                                                                         \
    X(PARTS, NULL, false)                                                                          \
    X(PROGRAM, program_invocation_short_name, false)                                               \
    X(PYTHON_SITES, "auto", false)                                                                 \
    X(QUIET, NULL, false)                                                                          \
    X(RANK, "-1", false)                                                                           \
    X(RECORD, "events", true)                                                                      \
    X(REPRODUCIBLE, NULL, true)                                                                    \
    X(RUNS, "16", false)                                                                           \
    X(SAMPLE, "1", false)                                                                          \
    X(SCRATCH, "67108864", true)                                                                   \
    X(SHARE, NULL, false)                                                                          \
    X(SKIP_PACKAGES, NULL, false)                                                                  \
    X(STACK, "1", false)                                                                           \
    X(SWITCH, "", true)                                                                            \
    X(SWITCH_MODEL, NULL, true)                                                                    \
    X(SUMMARY_TO, NULL, true)                                                                      \
    X(TOGETHER, NULL, false)                                                                       \
    X(TRACE, "", false)                                                                            \
    X(UNRECORDED, NULL, false)                                                                     \
    X(VERSION, "", true)                                                                           \
    X(WHERE, NULL, false)

#define X(name, otherwise, compared) name,
enum variable { VARIABLES(X) };
#undef X

static uint64_t compared_hash; /* hash of the variables that ranks compare */

/* Return a copy of the variable's text, because the program may change its environment. */
static const char *text_of(const char *name, const char *otherwise, bool compared)
{
    const char *const value = getenv(name);
    const char *const kept = value != NULL && value[0] != '\0' ? memory_copy_text(value) : NULL;

    if (compared)
        compared_hash = hash_mix(compared_hash, kept != NULL ? 1 + hash_text(1, kept, -1) : 0);
    return kept != NULL ? kept : otherwise;
}

uint64_t options_hash(void)
{
    return compared_hash;
}

/* Return BYTES of "ring:BYTES", or 0 for any other recording mode. */
static int64_t ring_of(const char *record)
{
    return strncmp(record, "ring:", 5) == 0 ? strtoll(record + 5, NULL, 10) : 0;
}

void options_read(void)
{
    struct options *const o = &recorder.options;
#define X(name, otherwise, compared) [name] = text_of("MPIPROF_" #name, otherwise, compared),
    const char *const text[] = {VARIABLES(X)};
#undef X

    *o = (struct options){.trace = text[TRACE],
                          .base = text[BASE],
                          .program = text[PROGRAM],
                          .command = text[COMMAND],
                          .machine = text[MACHINE],
                          .skip_packages = text[SKIP_PACKAGES],
                          .version = text[VERSION],
                          .invocation = text[INVOCATION],
                          .job = text[JOB],
                          .alone = text[ALONE],
                          .sample = (unsigned)strtoul(text[SAMPLE], NULL, 10),
                          .stack = atoi(text[STACK]),
                          .limit = strtoll(text[LIMIT], NULL, 10),
                          .node_files_above = atoi(text[NODE_FILES_ABOVE]),
                          .alike = atoi(text[ALIKE]),
                          .runs = atoi(text[RUNS]),
                          .ring = ring_of(text[RECORD]),
                          .summary = strcmp(text[RECORD], "summary") == 0,
                          .partial = text[PARTIAL] != NULL,
                          .quiet = text[QUIET] != NULL,
                          .several = text[PARTS] != NULL,
                          .share = text[SHARE] != NULL,
                          .together = text[TOGETHER] != NULL,
                          .unrecorded = text[UNRECORDED] != NULL,
                          .where = text[WHERE] != NULL,
                          .python = strcmp(text[PYTHON_SITES], "always") == 0  ? PYTHON_ALWAYS
                                    : strcmp(text[PYTHON_SITES], "never") == 0 ? PYTHON_NEVER
                                                                               : PYTHON_AUTO,
                          .marks = text[MARKS],
                          .rank = atoi(text[RANK]),
                          .node = text[NODE],
                          .library = text[LIBRARY],
                          .rules = text[SWITCH],
                          .model = text[SWITCH_MODEL],
                          .learn = text[LEARN],
                          .learned = text[LEARNED],
                          .chooses = text[AUTO] != NULL,
                          .reproducible = text[REPRODUCIBLE] != NULL,
                          .scratch = strtoll(text[SCRATCH], NULL, 10)};
    o->stack = o->stack < 1 ? 1 : o->stack;
    o->totals = o->summary || o->ring > 0 || text[SUMMARY_TO] != NULL;
}

static bool is_one_thread(void)
{
    const int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat s;
    const bool one =
        signal_guard_file_status(tasks, &s) && s.st_nlink == 3; /* ".", ".." and one thread */

    if (tasks >= 0)
        close(tasks);
    return one;
}

/* Remove the recorder from LD_PRELOAD, so that later children run without it. Other libraries stay.
 *
 * Another thread may be in getenv. unsetenv moves all later variables, so that getenv might miss an
 * existing one. setenv of an existing variable stores one pointer, under the library's lock, and
 * the old text stays valid. So unsetenv is used only if the process has a single thread, as most
 * programs have before MPI_Init. Otherwise the variable becomes empty, which the loader treats as
 * unset.
 */
void options_clear_environment(void)
{
    const char *const own = recorder.options.library, *const all = getenv("LD_PRELOAD");
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
    python_site_clear_preload(value);
    text_free(&kept);
}
