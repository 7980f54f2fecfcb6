/* Large memory: what algorithms and staged buffers need beside the user's.
 *
 * A communicator has a region of its own, as no two threads call on one at once; within a call
 * pieces of it are handed out in a row. That a region is as large as a call needs is agreed among
 * the members before the first message:
 *
 *   what algorithms need         follows from sizes that all members know (schedule.h): above the
 *                                limit, `--scratch` a process, the algorithm is no candidate
 *   what is staged               depends on a rank's own types; no more than all the operation's
 *                                data (stage.c). Where a region may have so much, it has: all know
 *                                that without a message. It grows by an eighth or more, agreed each
 *                                time by one reduction: some in a communicator's life, the first
 *                                in its first call
 *   otherwise                    (more than that, or sizes that not all know) the members ask each
 *                                other in this call what they really need
 *   gatherv, scatterv, alltoallv move whole blocks from place to place: nothing is staged, and
 *                                nobody is asked (stage.c)
 *
 * Who asks keeps members together that might have run ahead: in rooted operations on more data than
 * the limit. Where one has no memory, or would leave the library none, all leave the call to it. An
 * address is reserved at once, pages come with the first touch; above KEPT they go back to the
 * system after the call.
 *
 * `used` is the process's, atomic. What is left out is noted by the member that leads, under
 * recorder.lock, and said once, in MPI_Finalize (diagnostics.c).
 */
#include <sys/mman.h>

#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "record/comm.h"
#include "run/room.h"
#include "run/scratch.h"
#include "schedule/schedule.h"

enum { ALIGNMENT = 64 };
#define KEPT (INT64_C(1) << 20)

static _Atomic int64_t used; /* by all regions */
static struct scratch_note note;

/* What a piece takes of a region. */
int64_t scratch_piece(int64_t bytes)
{
    return bytes > 0 ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : 0;
}

/* Whether a region may be as large, as far as is known; the same on all members. */
bool scratch_fits(const struct communicator *k, int64_t bytes)
{
    return bytes <= recorder.options.scratch &&
           (k->scratch.refused == 0 || bytes < k->scratch.refused);
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

/* Beyond the next eighth of a power of two, so that sizes that creep up ask seldom, and the usual
 * sizes of programs are not where members would part whose sizes differ by a few bytes. */
static int64_t rounded(int64_t bytes)
{
    int64_t step = SCRATCH_SURE;

    while (8 * step < bytes)
        step *= 2;
    const int64_t room = (bytes + step) / step * step, limit = recorder.options.scratch;

    return room < limit ? room : limit;
}

/* A larger region in place of the present one, if all members get theirs. */
static bool grow(struct communicator *k, int64_t bytes)
{
    enum { LACKS, MOST, LEAST_ROOM, BYTES, FACTS }; /* the maximum over all members */
    struct scratch *const s = &k->scratch;
    struct scratch more = {.room = rounded(bytes)};
    int64_t mine[FACTS] = {[LACKS] = 1, more.room, -more.room, -bytes};
    int64_t all[FACTS];
    bool lacks = true;

    if (room_for(more.room - s->room)) { /* the present one goes */
        more.bytes = mmap(NULL, (size_t)more.room, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        lacks = more.bytes == MAP_FAILED;
        if (lacks)
            atomic_fetch_sub(&used, more.room - s->room);
    }
    mine[LACKS] = lacks;
    /* Members whose sizes differ, as the program is wrong, must not have different regions. */
    const bool told =
        pmpi.Allreduce(mine, all, FACTS, MPI_INT64_T, MPI_MAX, k->private) == MPI_SUCCESS;
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

/* Whether the region has so much, which is the same on all members. Called by all of them. */
bool scratch_had(struct communicator *k, int64_t bytes)
{
    return bytes <= k->scratch.room || (scratch_fits(k, bytes) && grow(k, bytes));
}

/* In the first call, whatever its size: what all are sure to have must not be asked for by some. */
void scratch_begin(struct communicator *k)
{
    if (!k->scratch.begun)
        scratch_had(k, 1);
    k->scratch.begun = true;
}

/* The same, where each knows what it needs itself; `bytes` becomes what the neediest does. */
bool scratch_asked(struct communicator *k, int64_t *bytes)
{
    int64_t most = 0;

    if (pmpi.Allreduce(bytes, &most, 1, MPI_INT64_T, MPI_MAX, k->private) != MPI_SUCCESS)
        return false;
    *bytes = most;
    return scratch_had(k, most);
}

/* ---- within a call */

void *scratch_take(struct communicator *k, int64_t bytes)
{
    char *const piece = k->scratch.bytes + k->scratch.taken;

    k->scratch.taken += scratch_piece(bytes);
    return piece;
}

/* At the end of a call. */
void scratch_give_back(struct communicator *k)
{
    struct scratch *const s = &k->scratch;

    if (s->taken > KEPT)
        madvise(s->bytes + KEPT, (size_t)(s->room - KEPT), MADV_DONTNEED);
    s->taken = 0;
}

void scratch_free(struct communicator *k)
{
    struct scratch *const s = &k->scratch;

    if (s->room > 0)
        munmap(s->bytes, (size_t)s->room);
    atomic_fetch_sub(&used, s->room);
    *s = (struct scratch){0};
}
