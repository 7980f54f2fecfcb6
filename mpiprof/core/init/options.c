/* Options that the launcher passes in environment variables, their fingerprint, and removal of the
 * recorder from LD_PRELOAD.
 *
 * Options are read once, before any call is recorded. Their texts live as long as the process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/pmpi.h"
#include "base/recorder.h"
#include "build.h"
#include "callsite/callsite.h"
#include "init/init.h"
#include "tracefile/tracefile.h"

/* Variables, named without the prefix MPIPROF_: destination in options_read, conversion, default
 * for a missing or empty variable, and whether it may affect the selection of an algorithm. Ranks
 * that differ in a variable with `true` keep native algorithms (options_fingerprint). The others
 * control recording, or describe the launch. */
#define VARIABLES(X)                                                                               \
    X(ALIKE, o->alike, atoi, "64", false)                                                          \
    X(ALONE, o->alone, TEXT, "", false)                                                            \
    X(AUTO, o->chooses, FLAG, NULL, true)                                                          \
    X(BASE, o->base, TEXT, "mpiprof-trace", false)                                                 \
    X(COMMAND, o->command, TEXT, "[]", false)                                                      \
    X(COMMIT, o->commit, TEXT, "", false)                                                          \
    X(INTERVALS, intervals, TEXT, "on", false)                                                     \
    X(INVOCATION, o->invocation, TEXT, "python -m mpiprof", false)                                 \
    X(JOB, o->job, TEXT, "", false)                                                                \
    X(LEARN, o->learn, TEXT, NULL, true)                                                           \
    X(LEARNED, o->learned, TEXT, NULL, false)                                                      \
    X(LIBRARY, o->library, TEXT, NULL, false)                                                      \
    X(LIMIT, o->limit, atoll, "1073741824", false)                                                 \
    X(MACHINE, o->machine, TEXT, NULL, false)                                                      \
    X(MARKS, o->marks, TEXT, NULL, false)                                                          \
    X(MESSAGES, o->messages, TEXT, "auto", false)                                                  \
    X(NODE, o->node, TEXT, NULL, false)                                                            \
    X(NODE_FILES_ABOVE, o->node_files_above, atoi, "32", false)                                    \
    X(PARTIAL, o->partial, FLAG, NULL, true)                                                       \
    X(PARTS, o->several, FLAG, NULL, false)                                                        \
    X(PROGRAM, o->program, TEXT, program_invocation_short_name, false)                             \
    X(PYTHON_SITES, python, TEXT, "auto", false)                                                   \
    X(QUIET, o->quiet, FLAG, NULL, false)                                                          \
    X(RANK, o->rank, atoi, "-1", false)                                                            \
    X(RECORD, record, TEXT, "events", true)                                                        \
    X(REPRODUCIBLE, o->reproducible, FLAG, NULL, true)                                             \
    X(RUNS, o->runs, atoi, "16", false)                                                            \
    X(SAMPLE, o->sample, COUNT, "1", false)                                                        \
    X(SCRATCH, o->scratch, atoll, "67108864", true)                                                \
    X(SHARE, o->share, FLAG, NULL, false)                                                          \
    X(SKIP_PACKAGES, o->skip_packages, TEXT, NULL, false)                                          \
    X(STACK, o->stack, atoi, "1", false)                                                           \
    X(SWITCH, o->rules, TEXT, "", true)                                                            \
    X(SWITCH_MODEL, o->model, TEXT, NULL, true)                                                    \
    X(SUMMARY_TO, summary_to, TEXT, NULL, true)                                                    \
    X(TOGETHER, o->together, FLAG, NULL, false)                                                    \
    X(TRACE, o->trace, TEXT, "", false)                                                            \
    X(UNRECORDED, o->unrecorded, FLAG, NULL, false)                                                \
    X(VERSION, o->version, TEXT, "", true)                                                         \
    X(WHERE, o->where, FLAG, NULL, false)                                                          \
    X(WHERE_PERIOD, o->where_period_us, atoll, "10000", false)

#define TEXT(text) (text)
#define FLAG(text) ((text) != NULL)
#define COUNT(text) ((unsigned)strtoul(text, NULL, 10))

static uint64_t compared_hash; /* hash of the variables that ranks compare */

/* Return a variable in a process that has not called MPI_Init, which reads the options. */
const char *options_variable(const char *name)
{
    return getenv(name);
}

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
    const uint64_t able = pmpi.can_switch + 2u * memory_reserve_exists;

    return (int64_t)hash_mix(h, hash_mix(able, compared_hash));
}

void options_read(void)
{
    struct options *const o = &recorder.options;
    const char *intervals, *record, *python, *summary_to;

#define X(name, member, convert, otherwise, compared)                                              \
    member = convert(text_of("MPIPROF_" #name, otherwise, compared));
    VARIABLES(X)
#undef X
    o->stack = o->stack < 1 ? 1 : o->stack;
    o->python = strcmp(python, "always") == 0  ? PYTHON_ALWAYS
                : strcmp(python, "never") == 0 ? PYTHON_NEVER
                                               : PYTHON_AUTO;
    o->intervals = strcmp(intervals, "off") != 0;
    o->summary = strcmp(record, "summary") == 0;
    o->ring = strncmp(record, "ring:", 5) == 0 ? atoll(record + 5) : 0;
    o->totals = o->summary || o->ring > 0 || summary_to != NULL;
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
    const char *const value = others.length > 0          ? others.bytes
                              : meta_thread_count() == 1 ? NULL
                                                         : "";

    if (value != NULL)
        setenv("LD_PRELOAD", value, 1);
    else
        unsetenv("LD_PRELOAD");
    python_site_clear_preload(value);
    text_free(&others);
}
