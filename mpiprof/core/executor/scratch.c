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
 * touch. Pages above KEPT return to the system after the call.
 *
 * `used` belongs to the process and is atomic. The leading member records omitted algorithms under
 * recorder.lock; diagnostics.c reports them once in MPI_Finalize.
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
#define KEPT (INT64_C(1) << 20)

static _Atomic int64_t used; /* by all regions */
static struct scratch_note note;

int64_t scratch_piece(int64_t bytes)
{
    return bytes > 0 ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : 0;
}

/* Return true if a region of this size is allowed as far as known, equally on all members. */
bool scratch_fits(const struct communicator *k, int64_t bytes)
{
    const int64_t refused = scratch_of(k)->refused;

    return bytes <= recorder.options.scratch && (refused == 0 || bytes < refused);
}

void scratch_left_out(const struct communicator *k, const struct algorithm *a, int64_t bytes)
{
    if (!comm_leads(k))
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

struct scratch_note scratch_noted(void)
{
    return note;
}

/* ---- regions */

static bool room_for(int64_t bytes)
{
    if (memory_short() || !memory_is_left((size_t)bytes))
        return false;
    if (atomic_fetch_add(&used, bytes) + bytes <= recorder.options.scratch)
        return true;
    atomic_fetch_sub(&used, bytes);
    return false;
}

/* Round up beyond the next eighth of a power of two. Slowly growing sizes then cause few
 * agreements. Usual sizes of programs must not be at a boundary, where sizes that differ by a few
 * bytes would lead to different regions. */
static int64_t rounded(int64_t bytes)
{
    int64_t step = SCRATCH_SURE;

    while (8 * step < bytes)
        step *= 2;
    const int64_t room = (bytes + step) / step * step, limit = recorder.options.scratch;

    return room < limit ? room : limit;
}

/* Replace the region by a larger one, if all members can allocate theirs. */
static bool grow(struct communicator *k, int64_t bytes)
{
    enum { LACKS, MOST, LEAST_ROOM, BYTES, FACTS }; /* reduced to the maximum over all members */
    struct scratch *const s = scratch_of(k);
    struct scratch more = {.room = rounded(bytes)};
    int64_t mine[FACTS] = {[LACKS] = 1, more.room, -more.room, -bytes};
    int64_t all[FACTS];
    bool lacks = true;

    if (room_for(more.room - s->room)) { /* the present region will be freed */
        more.bytes = mmap(NULL, (size_t)more.room, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        lacks = more.bytes == MAP_FAILED;
        if (lacks)
            atomic_fetch_sub(&used, more.room - s->room);
    }
    mine[LACKS] = lacks;
    /* Regions must stay equal if the members' sizes differ in an erroneous program. */
    const bool told =
        pmpi.Allreduce(mine, all, FACTS, MPI_INT64_T, MPI_MAX, private_of(k)->comm) == MPI_SUCCESS;
    const bool alike = told && all[MOST] == -all[LEAST_ROOM];

    if (alike && all[LACKS] == 0) {
        if (s->room > 0)
            munmap(s->bytes, (size_t)s->room);
        s->bytes = more.bytes;
        s->room = more.room;
        return true;
    }
    if (!lacks) {
        munmap(more.bytes, (size_t)more.room);
        atomic_fetch_sub(&used, more.room - s->room);
    }
    if (!told)
        s->refused = bytes;
    else if (alike)
        s->refused = -all[BYTES];
    return false;
}

/* Return true if the region has this size, equally on all members, after growing it if necessary.
 * Collective. */
bool scratch_had(struct communicator *k, int64_t bytes)
{
    return bytes <= scratch_of(k)->room || (scratch_fits(k, bytes) && grow(k, bytes));
}

/* Create the region in the first call of any size, so that its guaranteed size never needs an
 * agreement. */
void scratch_begin(struct communicator *k)
{
    if (!scratch_of(k)->begun)
        scratch_had(k, 1);
    scratch_of(k)->begun = true;
}

/* The same if needs differ between members. `bytes` becomes the maximum. */
bool scratch_asked(struct communicator *k, int64_t *bytes)
{
    int64_t most = 0;

    if (pmpi.Allreduce(bytes, &most, 1, MPI_INT64_T, MPI_MAX, private_of(k)->comm) != MPI_SUCCESS)
        return false;
    *bytes = most;
    return scratch_had(k, most);
}

/* ---- within a call */

void *scratch_take(struct communicator *k, int64_t bytes)
{
    struct scratch *const s = scratch_of(k);
    char *const piece = s->bytes + s->taken;

    s->taken += scratch_piece(bytes);
    return piece;
}

void scratch_give_back(struct communicator *k)
{
    struct scratch *const s = scratch_of(k);

    if (s->taken > KEPT)
        madvise(s->bytes + KEPT, (size_t)(s->room - KEPT), MADV_DONTNEED);
    s->taken = 0;
}

void scratch_free(struct communicator *k)
{
    struct scratch *const s = scratch_of(k);

    if (s->room > 0)
        munmap(s->bytes, (size_t)s->room);
    atomic_fetch_sub(&used, s->room);
    *s = (struct scratch){0};
}
