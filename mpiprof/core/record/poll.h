/* Polls: calls of Test, Iprobe and similar functions that find nothing, again and again (poll.c).
 *
 *     Iprobe   Iprobe   pause    Iprobe   Iprobe                    Iprobe
 *     |------|-|------|----------|------|-|------|------------------|------|
 *     in vain                                                       finds a message
 *     |<------------------- one poll of 4 calls ------------------>|
 *
 * poll_enter and poll_leave are the whole path of a repeated call in vain. They read the counter of
 * the processor in place of the clock, and only count the call. Any other call is recorded as usual.
 */
#pragma once
#include <string.h>

#include "base/mpi_types.h"
#include "base/pmpi.h"
#include "base/ticks.h"
#include "record/call.h"
#include "record/completion.h"
#include "record/record.h"

enum { POLL_SITES = 8 };
enum { POLL_NONE, POLL_INSIDE, POLL_BETWEEN }; /* of a header's `polling` */
struct poll_site {                             /* calls with equal arguments */
    const void *caller; /* or the struct site of a Python program; NULL in an unused entry */
    int operation, rank;
    uint64_t object; /* map_key of the communicator or window, or 0 */
    const struct call_shape *shape;
    uint32_t posted_after; /* of a probe (struct message_side) */
    enum spent spent;
    int64_t calls; /* not yet in the sums, with their time in ticks */
    uint64_t ticks;
};
struct poll {
    struct poll_site sites[POLL_SITES];
    struct poll_site *last; /* site of the last call */
    bool spins;   /* the next call may only be counted, if it follows soon at one of these sites */
    bool is_late; /* poll_leave has refused a call that has returned: it is recorded now */
    uint64_t entered,
        left; /* ticks at the begin of the last counted call, at the end of the last */
    uint64_t most_gap, due; /* ticks: longest gap to the next call; when poll_update is due */
    uint64_t unsure; /* ticks: by which `entered` and `left` may differ from the clock's times */
    int64_t begin_ns, left_ns;
    int64_t processor_ns, read_ns; /* processor time at read_ns; read_ns 0: unknown */
    int64_t calls, inside_ns;      /* inside_ns: time in the calls */
    int64_t gaps_ns, gap_ns;       /* sum of the gaps above SHORT_NS; the last gap */
    int64_t updates, stalls;       /* of all polls: calls of poll_update; gaps of STALLED_POLL_NS */
    MPI_Request handles[FEW_REQUESTS]; /* of a counted Test */
    MPI_Status status;                 /* in place of a status that the program ignores */
};
struct poll_call { /* a call in vain that was recorded with its times */
    int operation, rank;
    uint64_t object;
    const void *address;
    const struct call_shape *shape;
    uint32_t posted_after;
    enum spent spent;
    bool may_spin;
    int64_t enter_ns, exit_ns;
};

void poll_start(void);
void poll_update(struct poll *p);
void poll_close(void);
bool poll_resume(int64_t enter_ns);
bool poll_end(int64_t found_ns);
bool poll_add(const struct poll_call *c);
int64_t poll_late_ns(struct poll *p);

static inline bool poll_is_possible(int operation)
{
    return (operation >= OP_test && operation <= OP_request_get_status_some) ||
           operation == OP_iprobe || operation == OP_improbe || operation == OP_win_test ||
           operation == OP_parrived;
}

/* Return true if the call that begins has returned already, after poll_leave has refused it. */
static inline bool poll_is_late(int operation)
{
    return self.poll != NULL && self.poll->is_late && poll_is_possible(operation);
}

/* End the poll of the calling thread, because another call begins. */
static inline void poll_interrupt(void)
{
    if (self.polls)
        poll_close();
}

static inline const void *poll_caller(const void *address)
{
    const struct site *const site = python_site();

    return site != NULL                  ? (const void *)site
           : self.fortran_caller != NULL ? self.fortran_caller
                                         : address;
}

static inline struct poll_site *poll_site_at(struct poll *p, const void *caller, int rank)
{
    return &p->sites[((uintptr_t)caller / 4 + (unsigned)rank) % POLL_SITES];
}

/* Begin a call that may only be counted. Otherwise returns false: it is recorded as usual. */
static inline bool poll_enter(int operation, const void *address, uint64_t object, int rank)
{
    struct poll *const p = self.poll;

    if (p == NULL || !p->spins || atomic_load_explicit(&mapped_is_unguarded, memory_order_relaxed))
        return false;
    const void *const caller = poll_caller(address);
    struct poll_site *const s = poll_site_at(p, caller, rank);

    if (s->caller != caller || s->operation != operation || s->rank != rank || s->object != object)
        return false;
    const uint64_t now = ticks_now();

    if (now - p->left > p->most_gap)
        return false;
    p->last = s;
    p->entered = now;
    self.window->head.polling = POLL_INSIDE;
    return true;
}

/* The same for a call on requests, which are stored in their C form, because the library clears
 * those that are complete, and forgets the numbers that Fortran has for them. A thread beside
 * others may not look for their messages after the call: another thread may have an equal handle
 * by then. */
static inline bool poll_enter_requests(int operation, const void *address, int count,
                                       const void *handles, bool fortran)
{
    if (self.poll == NULL || !self.poll->spins || count < 1 || count > FEW_REQUESTS ||
        handles == NULL || atomic_load_explicit(&single_thread_is_over, memory_order_relaxed) ||
        !poll_enter(operation, address, 0, NO_MESSAGE))
        return false;
#ifdef MPIPROF_FORTRAN
    for (int i = 0; fortran && i < count; i++)
        self.poll->handles[i] = request_f2c(((const MPI_Fint *)handles)[i]);
#endif
    if (!fortran && count == 1)
        self.poll->handles[0] = *(const MPI_Request *)handles;
    else if (!fortran)
        memcpy(self.poll->handles, handles, (size_t)count * sizeof(MPI_Request));
    return true;
}

static inline void *poll_status(void *status, bool fortran)
{
    return status_is_ignored(status, fortran) ? &self.poll->status : status;
}

/* End a call after poll_enter. Returns false if it has to be recorded now, because it has found
 * something or failed, or because a callback has made other calls. */
static inline bool poll_leave(bool in_vain)
{
    struct poll *const p = self.poll;

    if (!in_vain || !p->spins) {
        p->is_late = true;
        return false;
    }
    const uint64_t now = ticks_now();

    p->last->calls++;
    p->last->ticks += now - p->entered;
    p->left = now;
    self.window->head.polling = POLL_BETWEEN;
    if (now >= p->due)
        poll_update(p);
    return true;
}
