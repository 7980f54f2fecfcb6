/* Everything by which this process may come to another choice of algorithm than the next one: ranks
 * whose numbers differ do not switch.
 *
 *   the recorder itself    all of its sources, its compiler and flags: one number, made when it is
 *                          built (fingerprint.cmake); which entry points are wrapped
 *   what it was asked      the variables that decide
 *   the MPI library        its version, and whether it has all that switching needs
 *   memory                 whether there is a reserve (memory.c)
 *
 * Each variable that the recorder reads is in one of the two lists (a test compares them with the
 * sources). What is measured is agreed where it is used (private.c).
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "build.h"
#include "life/fingerprint.h"
#include "trace/meta.h"

/* Not compared, as they say where and how calls are recorded, who started the program, by which
 * words and beside whom: ALIKE ALONE BASE COMMAND INVOCATION JOB LIBRARY LIMIT MACHINE MARKS NODE
 * NODE_FILES_ABOVE PARTS PROGRAM PYTHON_SITES QUIET RANK RUNS SAMPLE SKIP_PACKAGES STACK TOGETHER
 * TRACE UNRECORDED */
static const char *const deciding[] = {"AUTO",         "EXPLAIN",      "PARTIAL", "PLAN_OUT",
                                       "RECORD",       "REPRODUCIBLE", "SCRATCH", "SWITCH",
                                       "SWITCH_MODEL", "VERSION"};

int64_t fingerprint(void)
{
    const uint64_t h = hash_mix(hash_mix(BUILD, hash_text(1, recorder.wrapped, -1)),
                                hash_text(1, meta_library(), -1));
    uint64_t asked = pmpi.can_switch + 2u * memory_had();

    for (size_t i = 0; i < sizeof deciding / sizeof *deciding; i++) {
        char name[40];

        snprintf(name, sizeof name, "MPIPROF_%s", deciding[i]);
        const char *const value = getenv(name);

        asked = hash_mix(asked, value != NULL ? 1 + hash_text(1, value, -1) : 0);
    }
    return (int64_t)hash_mix(h, asked);
}
