/* Scratch memory of algorithms and packed buffers.
 *
 * Each communicator has its own region, because no two threads call on it at once. A call takes
 * pieces of the region one after the other. Before the first message the members agree that their
 * regions are large enough:
 *
 *   algorithm      The need follows from sizes that all members know (schedule.h). Above the
 *                  limit of `--scratch` per process, the algorithm is no candidate.
 *   packing        The need depends on a rank's types, and is at most all data of the operation.
 *                  If a region may hold so much, it does. It grows by 1/8 or more, by one
 *                  reduction each time: a few in a communicator's life.
 *   otherwise      If the need is larger, or not all members know the sizes, they agree on the
 *                  actual need in each call.
 *
 * If a member has no memory, or would leave none for the library, all members leave the call to the
 * library. Addresses are reserved at once; pages are allocated at first touch, and pages above
 * RESIDENT return to the system after the call.
 *
 * Threads: `region_bytes` belongs to the process and is atomic; `scratch_omitted` is protected
 * by recorder.lock.
 */
#include <sys/mman.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/private_comm.h"

enum { ALIGNMENT = 64 };
#define RESIDENT (INT64_C(1) << 20)

static _Atomic int64_t region_bytes; /* by all regions */
struct scratch_note scratch_omitted;

int64_t scratch_rounded(int64_t bytes)
{
    return bytes > 0 ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : 0;
}

/* Return true if a region of this size is allowed as far as known, equally on all members. */
bool scratch_fits(const struct communicator *k, int64_t bytes)
{
    const int64_t refused = scratch_of(k)->refused;

    return bytes <= recorder.options.scratch && (refused == 0 || bytes < refused);
}

void scratch_note_omitted(const struct communicator *k, const struct algorithm *a, int64_t bytes)
{
    if (!comm_is_leader(k))
        return;
    recorder_lock();
    scratch_omitted.times++;
    if (bytes > scratch_omitted.bytes) {
        scratch_omitted.algorithm = a;
        scratch_omitted.bytes = bytes;
    }
    recorder_unlock();
}

/* ---- regions */

static bool limit_allows(int64_t bytes)
{
    if (memory_is_short() || !memory_is_left((size_t)bytes))
        return false;
    if (atomic_fetch_add(&region_bytes, bytes) + bytes <= recorder.options.scratch)
        return true;
    atomic_fetch_sub(&region_bytes, bytes);
    return false;
}

/* Round up beyond the next eighth of a power of two. Slowly growing sizes then cause few
 * agreements. Usual sizes of programs must not be at a boundary, where sizes that differ by a few
 * bytes would lead to different regions. */
static int64_t region_size(int64_t bytes)
{
    int64_t step = SCRATCH_SURE;

    while (8 * step < bytes)
        step *= 2;
    const int64_t room = (bytes + step) / step * step, limit = recorder.options.scratch;

    return room < limit ? room : limit;
}

/* Replace the region by a larger one, if all members can allocate theirs. */
static bool region_grow(struct communicator *k, int64_t bytes)
{
    enum { LACKS, MOST, LEAST, BYTES, FACTS }; /* reduced to the maximum over all members */
    struct scratch *const s = scratch_of(k);
    const int64_t size = region_size(bytes), more = size - s->size; /* the present one is freed */
    char *region = MAP_FAILED;

    if (limit_allows(more)) {
        region =
            mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (region == MAP_FAILED)
            atomic_fetch_sub(&region_bytes, more);
    }
    /* Regions must stay equal if the members' sizes differ in an erroneous program. */
    const int64_t mine[FACTS] = {region == MAP_FAILED, size, -size, -bytes};
    int64_t all[FACTS];
    const bool reduced =
        pmpi.Allreduce(mine, all, FACTS, MPI_INT64_T, MPI_MAX, private_of(k)->comm) == MPI_SUCCESS;
    const bool equal = reduced && all[MOST] == -all[LEAST];

    if (equal && all[LACKS] == 0) {
        if (s->size > 0)
            munmap(s->bytes, (size_t)s->size);
        s->bytes = region;
        s->size = size;
        return true;
    }
    if (region != MAP_FAILED) {
        munmap(region, (size_t)size);
        atomic_fetch_sub(&region_bytes, more);
    }
    if (!reduced)
        s->refused = bytes;
    else if (equal)
        s->refused = -all[BYTES];
    return false;
}

/* Grow the region to this size if necessary. Returns true if all members have it. Collective. */
bool scratch_ensure(struct communicator *k, int64_t bytes)
{
    return bytes <= scratch_of(k)->size || (scratch_fits(k, bytes) && region_grow(k, bytes));
}

/* Create the region in the first call, so that its guaranteed size never needs an agreement. */
void scratch_ensure_first(struct communicator *k)
{
    if (!scratch_of(k)->started)
        scratch_ensure(k, 1);
    scratch_of(k)->started = true;
}

/* The same if needs differ between members. `bytes` becomes the maximum. */
bool scratch_agree(struct communicator *k, int64_t *bytes)
{
    int64_t most = 0;

    if (pmpi.Allreduce(bytes, &most, 1, MPI_INT64_T, MPI_MAX, private_of(k)->comm) != MPI_SUCCESS)
        return false;
    *bytes = most;
    return scratch_ensure(k, most);
}

/* ---- within a call */

void *scratch_allocate(struct communicator *k, int64_t bytes)
{
    struct scratch *const s = scratch_of(k);
    char *const piece = s->bytes + s->used;

    s->used += scratch_rounded(bytes);
    return piece;
}

void scratch_reset(struct communicator *k)
{
    struct scratch *const s = scratch_of(k);

    if (s->used > RESIDENT)
        madvise(s->bytes + RESIDENT, (size_t)(s->size - RESIDENT), MADV_DONTNEED);
    s->used = 0;
}

void scratch_free(struct communicator *k)
{
    struct scratch *const s = scratch_of(k);

    if (s->size > 0)
        munmap(s->bytes, (size_t)s->size);
    atomic_fetch_sub(&region_bytes, s->size);
    *s = (struct scratch){0};
}
