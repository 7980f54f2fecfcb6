/* Scratch memory of algorithms and packed buffers.
 *
 * Each communicator has its own region, because no two threads call on it at once. A call takes
 * pieces of the region one after the other. Before the first message the members agree that their
 * regions are large enough:
 *
 *   algorithm      The need follows from sizes that all members know (schedule.h). Above the
 *                  limit of `--scratch` per process, the algorithm is no candidate.
 *   packing        The need depends on a rank's types, and is at most all data of the operation
 *                  (pack_buffers.c). If a region may hold so much, it does, and all members know
 *                  this without a message. A region grows by 1/8 or more, by one reduction each
 *                  time: a few in a communicator's life, the first in its first call.
 *   otherwise      If the need is larger, or not all members know the sizes, they agree on the
 *                  actual need in each call.
 *   v-forms        gatherv, scatterv and alltoallv move whole blocks from buffer to buffer. They
 *                  pack nothing and need no agreement (pack_buffers.c).
 *
 * An agreement synchronises members that might otherwise run ahead, in rooted operations on more
 * data than the limit. If a member has no memory, or would leave none for the library, all members
 * leave the call to the library. Addresses are reserved at once; pages are allocated at first
 * touch. Pages above RESIDENT return to the system after the call.
 *
 * `region_bytes` belongs to the process and is atomic. The leading member records omitted
 * algorithms under recorder.lock; diagnostics.c reports them once in MPI_Finalize.
 */
#include <sys/mman.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "executor/private_comm.h"
#include "record/communicator.h"
#include "schedule/schedule.h"

enum { ALIGNMENT = 64 };
#define RESIDENT (INT64_C(1) << 20)

static _Atomic int64_t region_bytes; /* by all regions */
static struct scratch_note note;

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
    note.times++;
    if (bytes > note.bytes) {
        note.algorithm = a;
        note.bytes = bytes;
        note.limit = recorder.options.scratch;
    }
    recorder_unlock();
}

struct scratch_note scratch_omitted(void)
{
    return note;
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
    enum { LACKS, MOST, LEAST_ROOM, BYTES, FACTS }; /* reduced to the maximum over all members */
    struct scratch *const s = scratch_of(k);
    struct scratch more = {.size = region_size(bytes)};
    int64_t mine[FACTS] = {[LACKS] = 1, more.size, -more.size, -bytes};
    int64_t all[FACTS];
    bool lacks = true;

    if (limit_allows(more.size - s->size)) { /* the present region will be freed */
        more.bytes = mmap(NULL, (size_t)more.size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        lacks = more.bytes == MAP_FAILED;
        if (lacks)
            atomic_fetch_sub(&region_bytes, more.size - s->size);
    }
    mine[LACKS] = lacks;
    /* Regions must stay equal if the members' sizes differ in an erroneous program. */
    const bool told =
        pmpi.Allreduce(mine, all, FACTS, MPI_INT64_T, MPI_MAX, private_of(k)->comm) == MPI_SUCCESS;
    const bool alike = told && all[MOST] == -all[LEAST_ROOM];

    if (alike && all[LACKS] == 0) {
        if (s->size > 0)
            munmap(s->bytes, (size_t)s->size);
        s->bytes = more.bytes;
        s->size = more.size;
        return true;
    }
    if (!lacks) {
        munmap(more.bytes, (size_t)more.size);
        atomic_fetch_sub(&region_bytes, more.size - s->size);
    }
    if (!told)
        s->refused = bytes;
    else if (alike)
        s->refused = -all[BYTES];
    return false;
}

/* Return true if the region has this size, equally on all members, after growing it if necessary.
 * Collective. */
bool scratch_ensure(struct communicator *k, int64_t bytes)
{
    return bytes <= scratch_of(k)->size || (scratch_fits(k, bytes) && region_grow(k, bytes));
}

/* Create the region in the first call of any size, so that its guaranteed size never needs an
 * agreement. */
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
