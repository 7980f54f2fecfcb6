/* Options that the launcher passes in environment variables, their fingerprint, and removal of the
 * recorder from LD_PRELOAD.
 *
 * Options are read once, before any call is recorded. Their texts live as long as the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pmpi.h"
#include "base/recorder.h"
#include "build.h"
#include "callsite/callsite.h"
#include "init/init.h"
#include "tracefile/tracefile.h"

/* Variables, named without the prefix MPIPROF_: default for a missing or empty variable, and
 * whether it may affect the selection of an algorithm. Ranks that differ in a variable with `true`
 * keep native algorithms (options_fingerprint). The others control recording, or describe the launch. */
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
    const char *const copy = value != NULL && value[0] != '\0' ? memory_copy_text(value) : NULL;

    if (compared)
        compared_hash = hash_mix(compared_hash, copy != NULL ? 1 + hash_text(1, copy, -1) : 0);
    return copy != NULL ? copy : otherwise;
}

/* Return a hash of everything that affects the selection of algorithms. Ranks with different hashes
 * keep native algorithms. Measured values are agreed where they are used (private_comm.c).
 *
 *   recorder      its sources, compiler and flags, hashed by the build (fingerprint.cmake); wrapped
 *                 entry points
 *   MPI library   its version, and whether it has all functions that selection requires
 *   memory        whether the reserve exists (memory.c)
 *   options       the variables that affect selection
 */
int64_t options_fingerprint(void)
{
    const uint64_t h = hash_mix(hash_mix(BUILD, hash_text(1, recorder.wrapped, -1)),
                                hash_text(1, meta_library(), -1));
    const uint64_t able = pmpi.can_switch + 2u * memory_reserve_exists();

    return (int64_t)hash_mix(h, hash_mix(able, compared_hash));
}

void options_read(void)
{
    struct options *const o = &recorder.options;
#define X(name, otherwise, compared) [name] = text_of("MPIPROF_" #name, otherwise, compared),
    const char *const text[] = {VARIABLES(X)};
#undef X
    const char *const record = text[RECORD], *const python = text[PYTHON_SITES];
    const int stack = atoi(text[STACK]);

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
                          .stack = stack < 1 ? 1 : stack,
                          .limit = strtoll(text[LIMIT], NULL, 10),
                          .node_files_above = atoi(text[NODE_FILES_ABOVE]),
                          .alike = atoi(text[ALIKE]),
                          .runs = atoi(text[RUNS]),
                          .ring = strncmp(record, "ring:", 5) == 0 ? atoll(record + 5) : 0,
                          .summary = strcmp(record, "summary") == 0,
                          .partial = text[PARTIAL] != NULL,
                          .quiet = text[QUIET] != NULL,
                          .several = text[PARTS] != NULL,
                          .share = text[SHARE] != NULL,
                          .together = text[TOGETHER] != NULL,
                          .unrecorded = text[UNRECORDED] != NULL,
                          .where = text[WHERE] != NULL,
                          .python = strcmp(python, "always") == 0  ? PYTHON_ALWAYS
                                    : strcmp(python, "never") == 0 ? PYTHON_NEVER
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
    struct text others = {0};

    if (own == NULL || all == NULL)
        return;
    for (const char *s = all; *s != '\0';) {
        const size_t length = strcspn(s, ": ");

        if (length > 0 && (strlen(own) != length || strncmp(s, own, length) != 0))
            text_add(&others, "%s%.*s", others.length > 0 ? ":" : "", (int)length, s);
        s += length + (s[length] != '\0');
    }
    const char *const value = others.length > 0 ? others.bytes : is_one_thread() ? NULL : "";

    if (value != NULL)
        setenv("LD_PRELOAD", value, 1);
    else
        unsetenv("LD_PRELOAD");
    python_site_clear_preload(value);
    text_free(&others);
}
