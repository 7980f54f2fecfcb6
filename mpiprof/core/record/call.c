/* Calls of collectives, from entry to exit: the hot path. What a call is: describe.c.
 *
 * Threads: any; a call is on its thread's stack.
 */
#include "record/call.h"
#include "base/native.h"
#include "base/operation.h"
#include "base/recorder.h"
#include "record/callsite.h"
#include "record/comm.h"
#include "record/describe.h"
#include "record/entry.h"
#include "record/handles.h"
#include "record/hooks.h"
#include "record/inside.h"
#include "record/python.h"
#include "record/record.h"
#include "record/refusal.h"
#include "record/signature.h"
#include "record/site.h"
#include "record/stack.h"
#include "record/thread.h"
#include "record/where.h"
#include "trace/event.h"

enum { OVERHEAD_EVERY = 64 };

static bool wanted(const struct call *c)
{
    if (c->comm->unrecorded)
        return false;
    if (operation_form(c->operation) == 2) /* an _init: what its starts are said of */
        return true;
    /* There is one MPI_Finalize: no other stands for it, nor it for others. */
    return !atomic_load_explicit(&recorder.paused, memory_order_relaxed) &&
           (c->operation == OP_finalize || record_samples(c->comm->identity, c->sequence, 0) ||
            record_is_summed());
}

/* Whose rows a call's record refers to. The starts of a persistent operation have a number of their
 * own, where that of one of many alike would stand. NULL: there are too many. */
static const struct communicator *rows_of(const struct call *c)
{
    if (c->comm->kin == 0 || operation_form(c->operation) != 2 || record_is_summed())
        return c->comm;
    return handle_own(c->comm);
}

static void call_open(struct call *c)
{
    if (c->signatures == NULL) {
        const struct communicator *const rows = rows_of(c);

        c->signatures = rows != NULL ? signatures_find(c->operation, rows, c->site) : NULL;
    }
    if (c->signatures == NULL) {
        record_drop();
        return;
    }
    if (record_is_summed())
        return;
    c->kin = c->signatures->comm->kin;
    c->wide = c->signatures->count >= 63;
    c->record = record_new((c->wide ? 2u : 0u) + (c->kin > 0 ? 1u : 0u));
    if (c->record == NULL)
        return;
    if (c->kin > 0)
        record_extend(c->record - (c->wide ? 3 : 1), EXT_START, c->kin);
    c->record->sequence = c->sequence;
    c->record->shape = c->shape = c->signatures->base.id;
    c->record->exit_ns = 0;
}

/* Where a call comes from, and with it the group, as it was found out for the last call from this
 * address; a handle may since have come to name another communicator. */
static void find_place(struct call *c, struct recent *r, bool known)
{
    const void *const caller = self.caller;

    c->site = python_site();
    if (c->site == NULL) {
        known &= r->native != NULL && r->caller == caller;
        c->site = known ? r->native : callsite_find(caller != NULL ? caller : c->address);
        r->native = recorder.options.stack == 1 ? c->site : NULL;
        r->caller = caller;
    }
    if (c->comm == NULL)
        return;
    c->signatures =
        known && r->signatures != NULL && r->signatures->site == c->site ? r->signatures : NULL;
    call_open(c);
    r->signatures = c->signatures;
}

static inline void call_enter(struct call *c, int operation, MPI_Comm handle, int root,
                              const void *address)
{
    struct thread *const t = &self;

    t->call = c;
    *c = (struct call){.operation = operation,
                       .handle = handle,
                       .root = root,
                       .address = address,
                       .on = MPI_COMM_NULL};
    if (++t->calls % OVERHEAD_EVERY == 0)
        c->begin_ns = now_ns();
}

/* Of a call that is counted: its site and its record, where it is to have one. */
static inline void call_note(struct call *c, struct recent *r, bool known)
{
    if (c->comm != NULL) {
        if (!wanted(c)) {
            inside_mark(SPENT_NOTHING);
            c->unlogged = true;
            return;
        }
        if (!recorder.options.summary && /* no site is worth finding for what is dropped */
            atomic_load_explicit(&recorder.stopped, memory_order_relaxed)) {
            record_drop();
            return;
        }
    }
    find_place(c, r, known);
    if (where_asked)
        where_entered(c->site);
    c->enter_ns = now_ns();
    if (c->record != NULL) {
        c->record->enter_ns = c->enter_ns;
        record_publish(c->record, KIND_call);
    }
}

bool call_begin_slow(struct call *c, int operation, MPI_Comm handle, int root, const void *address)
{
    struct recent *const r = &self.recent[((uintptr_t)address >> 2) % RECENT];
    const uint32_t generation = atomic_load_explicit(&recorder.generation, memory_order_relaxed);
    const bool known = r->address == address && r->handle == handle && r->operation == operation &&
                       r->generation == generation;

    call_enter(c, operation, handle, root, address);
    if (!known)
        *r = (struct recent){.address = address,
                             .handle = handle,
                             .operation = operation,
                             .generation = generation,
                             .comm = comm_find(handle)};
    c->comm = r->comm;
    c->recent = r;
    if (c->comm != NULL) {
        c->sequence = c->comm->next++;
        c->comm->history = c->comm->history << 8 | (uint64_t)(operation + 1);
    }
    call_note(c, r, known);
    return true;
}

/* Whether a call is made within the one that this thread is in: by a callback of it, or a layer of
 * the library. One that has been left is forgotten. */
bool call_within(const void *here)
{
    struct thread *const t = &self;

    if ((const void *)t->call > here && stack_holds(t->call))
        return true;
    t->call = NULL;
    return false;
}

/* A call whose place in the order is known already: gather.c. */
void call_begin_counted(struct call *c, int operation, const struct turn *at, const void *address)
{
    struct recent none = {.address = address};

    call_enter(c, operation, at->comm->handle, ROOT_NONE, address);
    c->comm = at->comm;
    c->creation = at->creation;
    c->sequence = at->sequence;
    call_note(c, &none, false);
}

/* A call that failed its local argument check has taken part in nothing. */
static void call_retract(struct call *c)
{
    if (c->comm->next == c->sequence + 1) {
        c->comm->next = c->sequence;
        c->comm->history >>= 8;
    }
    if (c->record != NULL) {
        c->record->kind = KIND_empty;
        if (c->wide)
            c->record[-2].kind = c->record[-1].kind = KIND_empty;
        if (c->kin > 0)
            c->record[c->wide ? -3 : -1].kind = KIND_empty;
        /* What a wide one had is in an extension, which now extends the next record. */
        if (c->record->outside_ns < UINT32_MAX)
            self.outside_ns += c->record->outside_ns;
    }
    c->record = NULL;
    c->signatures = NULL;
}

/* Whether a call that has failed has taken part in nothing. */
static bool is_refused(const struct call *c, int error)
{
    if (c->creation != NULL)
        return refusal_of_creation(c->creation, error);
    if (c->operation >= OP_COLLECTIVES && c->handle != MPI_COMM_NULL)
        return false; /* MPI_Finalize and MPI_Comm_disconnect */
    /* On an algorithm of ours it has taken part, whatever came of it. */
    return (c->algorithm == NULL || c->own != NULL) && refusal_by_class(error);
}

/* After the native routine; true: it succeeded and its arguments may be read. */
bool call_end(struct call *c, int error)
{
    if (c->settled)
        return false;
    if (c->site != NULL || c->key != NULL || c->watched)
        c->exit_ns = now_ns();
    record_check();
    if (error != MPI_SUCCESS) {
        c->refused = c->comm != NULL && is_refused(c, error);
        if (c->comm != NULL && !c->refused)
            c->comm->failed = true;
        if (c->refused) {
            call_retract(c);
        } else if (c->record != NULL) {
            describe_failed(c);
            c->record->exit_ns = c->exit_ns;
        }
        return false;
    }
    if (c->comm == NULL && c->handle != MPI_COMM_NULL) {
        c->comm = comm_adopt(c->handle);
        if (c->comm == NULL) {
            record_drop();
            return false;
        }
        c->sequence = c->comm->next++;
        if (!wanted(c)) /* it could not be known when the call began */
            return false;
        call_open(c);
        if (c->record != NULL) {
            c->record->enter_ns = c->enter_ns;
            c->record->exit_ns = c->exit_ns;
            record_publish(c->record, KIND_call);
        }
    }
    return c->signatures != NULL;
}

/* The program's error handler will be asked, which may never return: all is done that is to be done
 * of this call. */
void call_failed(struct call *c, int error)
{
    if (c->settled)
        return;
    call_end(c, error);
    if (c->inside)
        hooks.ended(c);
    c->settled = true;
}

void call_leave(struct call *c)
{
    struct thread *const t = &self;

    if (!c->settled && c->inside) {
        c->settled = true;
        hooks.ended(c);
    }
    t->call = NULL;
    if (c->unlogged && t->window != NULL) {
        record_check();
        t->window->head.inside = 0;
    }
    if (where_asked)
        where_left();
    if (c->begin_ns != 0 && c->exit_ns != 0)
        t->recorder_ns += OVERHEAD_EVERY * (c->enter_ns - c->begin_ns + now_ns() - c->exit_ns);
}

/* Where a call comes from, though it may be paused or left out of the sample. */
const struct site *call_site(const struct call *c)
{
    const struct site *const s = c->site != NULL ? c->site : python_site();

    return s != NULL ? s : callsite_find(self.caller != NULL ? self.caller : c->address);
}
