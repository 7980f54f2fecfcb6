/* Everything by which this process may come to another choice of algorithm than the next one: ranks
 * whose numbers differ do not switch.
 *
 *   the recorder itself    all of its sources, its compiler and flags: one number, made when it is
 *                          built (fingerprint.cmake); which entry points are wrapped
 *   what it was asked      all that the launcher has said, but for the names below
 *   the MPI library        its version, and whether it has all that switching needs
 *   memory                 whether there is a reserve (memory.c)
 *
 * A variable that is not named here counts, so that a new option is agreed upon unless somebody
 * shows that it decides nothing. What is measured is agreed where it is used (private.c).
 */
#include <string.h>
#include <unistd.h>

#include "fingerprint.h"
#include "memory.h"
#include "recorder.h"

/* Where and how calls are recorded; who started the program, by which words, and beside whom. */
static const char *const harmless[] = {
    "ALIKE",   "ALONE",     "BASE", "COMMAND",          "INVOCATION",    "LIBRARY", "LIMIT",
    "MACHINE", "MARKS",     "NODE", "NODE_FILES_ABOVE", "PARTS",         "PROGRAM", "PYTHON_SITES",
    "QUIET",   "RANK",      "RUNS", "SAMPLE",           "SKIP_PACKAGES", "STACK",   "TOGETHER",
    "TRACE",   "UNRECORDED"};

static uint64_t hash_text(const char *s)
{
    uint64_t h = 1;

    for (; *s != '\0'; s++)
        h = hash_mix(h, (uint64_t)(unsigned char)*s);
    return h;
}

static bool decides(const char *variable)
{
    static const char prefix[] = "MPIPROF_";
    const size_t skip = sizeof prefix - 1;

    if (strncmp(variable, prefix, skip) != 0)
        return false;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        const size_t length = strlen(harmless[i]);

        if (strncmp(variable + skip, harmless[i], length) == 0 && variable[skip + length] == '=')
            return false;
    }
    return true;
}

int64_t fingerprint(void)
{
    const uint64_t h =
        hash_mix(hash_mix(BUILD, hash_text(wrapped_level)), hash_text(meta_library()));
    uint64_t asked = pmpi.can_switch + 2u * memory_had();

    for (char **variable = environ; *variable != NULL; variable++)
        if (decides(*variable))
            asked += hash_text(*variable); /* in whatever order they stand */
    return (int64_t)hash_mix(h, asked);
}
