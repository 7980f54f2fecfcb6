/* Everything by which this process may come to another choice of algorithm than the next one: ranks
 * whose numbers differ do not switch.
 *
 *   the recorder itself    all of its sources, its compiler and flags: one number, made when it is
 *                          built (fingerprint.cmake); which entry points are wrapped
 *   what it was asked      the variables that decide (options.c)
 *   the MPI library        its version, and whether it has all that switching needs
 *   memory                 whether there is a reserve (memory.c)
 *
 * What is measured is agreed where it is used (private.c).
 */
#include "life/fingerprint.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "build.h"
#include "life/options.h"
#include "trace/meta.h"

int64_t fingerprint(void)
{
    const uint64_t h = hash_mix(hash_mix(BUILD, hash_text(1, recorder.wrapped, -1)),
                                hash_text(1, meta_library(), -1));
    const uint64_t able = pmpi.can_switch + 2u * memory_had();

    return (int64_t)hash_mix(h, hash_mix(able, options_compared()));
}
