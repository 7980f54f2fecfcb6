/* Hash of everything that affects the selection of algorithms. Ranks with different hashes keep
 * native algorithms.
 *
 *   recorder      its sources, compiler and flags, hashed by the build (fingerprint.cmake); wrapped
 *                 entry points
 *   options       the variables that affect selection (options.c)
 *   MPI library   its version, and whether it has all functions that selection requires
 *   memory        whether the reserve exists (memory.c)
 *
 * Measured values are agreed where they are used (private_comm.c).
 */
#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "build.h"
#include "init/init.h"
#include "tracefile/tracefile.h"

int64_t fingerprint(void)
{
    const uint64_t h = hash_mix(hash_mix(BUILD, hash_text(1, recorder.wrapped, -1)),
                                hash_text(1, meta_library(), -1));
    const uint64_t able = pmpi.can_switch + 2u * memory_reserve_exists;

    return (int64_t)hash_mix(h, hash_mix(able, options_hash()));
}
