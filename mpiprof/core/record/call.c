/* Recording of collective calls from entry to exit: the hot path. call_arguments.c records the
 * arguments.
 *
 * Threads: any; the state of a call is on its thread's stack.
 */
#include "record/call.h"
#include "base/operation.h"
#include "record/interval.h"
#include "record/message_epochs.h"
#include "record/poll.h"

enum { OVERHEAD_EVERY = 64 };

static bool is_logged(const struct call *c)
{
    if (c->comm->unrecorded)
        return false;
    if (operation_form(c->operation) == 2) /* an _init, which its starts refer to */
        return true;
    /* MPI_Finalize occurs once, so it is never sampled. */
    return !atomic_load_explicit(&recorder.paused, memory_order_relaxed) &&
           (c->operation == OP_finalize || record_is_sampled(c->comm->identity, c->sequence, 0) ||
            record_is_summed());
}

/* Return the communicator of the table rows that a call's record refers to, or NULL if the table is
 * full. On a communicator that shares its entry, a persistent operation needs a separate entry: the
 * extension record holds the number of the start instead of that of the communicator. */
static const struct communicator *shape_owner_of(const struct call *c)
{
    if (c->comm->equivalence.number == 0 || operation_form(c->operation) != 2 || record_is_summed())
        return c->comm;
    return window_file_comm_persistent(c->comm);
}

static void call_open(struct call *c)
{
    if (c->shape_group == NULL) {
        const struct communicator *const rows = shape_owner_of(c);

        c->shape_group = rows != NULL ? call_shapes_find(c->operation, rows, c->site) : NULL;
    }
    if (c->shape_group == NULL) {
        record_drop();
        return;
    }
    if (record_is_summed())
        return;
    const int64_t kin = c->shape_group->comm->equivalence.number;

    c->extensions = (call_shapes_are_many(c->shape_group) ? 2u : 0u) + (kin > 0 ? 1u : 0u);
    c->record = record_new(c->extensions);
    if (c->record == NULL)
        return;
    if (kin > 0)
        record_write_extension(c->record - c->extensions, EXT_START, kin);
    c->record->sequence = c->sequence;
    c->record->shape = c->shape = c->shape_group->base.id;
    c->record->exit_ns = 0;
}

/* Set a call's site and shape group, from the cache if the last call from this address is known to
 * have the same communicator: a handle may have been reused for another one. */
static void find_site(struct call *c, struct recent *r, bool known)
{
    const void *const caller = self.fortran_caller;

    c->site = python_site();
    if (c->site == NULL) {
        known &= r->native != NULL && r->caller == caller;
        c->site = known ? r->native : callsite_find(caller != NULL ? caller : c->address);
        r->native = recorder.options.stack == 1 ? c->site : NULL;
        r->caller = caller;
    }
    if (c->comm == NULL)
        return;
    c->shape_group =
        known && r->shape_group != NULL && r->shape_group->site == c->site ? r->shape_group : NULL;
    call_open(c);
    r->shape_group = c->shape_group;
}

static inline void call_enter(struct call *c, int operation, MPI_Comm handle, int root,
                              const void *address)
{
    struct thread *const t = &self;

    poll_interrupt();
    t->call = c;
    *c = (struct call){.operation = operation,
                       .handle = handle,
                       .root = root,
                       .address = address,
                       .library_comm = MPI_COMM_NULL};
    if (++t->calls % OVERHEAD_EVERY == 0)
        c->begin_ns = now_ns();
}

static uint32_t call_interval_shape(const struct call *c)
{
    return c->shape_group != NULL ? c->shape_group->base.id : NO_SHAPE;
}

/* Find the site of a counted call, and create its record if the call is to be recorded. */
static inline void call_note(struct call *c, struct recent *r, bool known)
{
    if (c->comm != NULL) {
        if (!is_logged(c)) {
            function_enter(c->operation);
            interval_forget();
            return;
        }
        if (!recorder.options.summary && /* a dropped call needs no site */
            atomic_load_explicit(&recorder.stopped, memory_order_relaxed)) {
            record_drop();
            return;
        }
    }
    find_site(c, r, known);
    if (presite_sample_is_on)
        presite_sample_entered(c->site, interval_left_shape(), call_interval_shape(c));
    c->enter_ns = interval_enter(c, now_ns(), call_interval_shape(c));
    if (c->record != NULL) {
        c->record->enter_ns = c->enter_ns;
        record_publish(c->record, KIND_call);
    }
}

bool call_begin_active(struct call *c, int operation, MPI_Comm handle, int root,
                       const void *address)
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
        /* Selections depend on blocking calls alone. Libraries forgive members that start a
         * nonblocking operation in another order, so a schedule must, too. */
        if (operation_form(operation) == 0) {
            c->blocking = c->comm->blocking++;
            c->comm->history = c->comm->history << 8 | (uint64_t)(operation + 1);
            if (c->comm->has_steps)
                message_epoch_add_collective(1);
        }
    }
    call_note(c, r, known);
    return true;
}

/* Return true if the thread is still in an earlier call, so that this call comes from a callback or
 * from the library itself. Otherwise clears the earlier call, which longjmp or an exception
 * abandoned. */
bool call_within(const void *here)
{
    struct thread *const t = &self;

    if ((const void *)t->call > here && unwind_is_live(t->call))
        return true;
    t->call = NULL;
    return false;
}

/* Begin a call that has its sequence number already (management_collectives.c). */
void call_begin_counted(struct call *c, int operation, const struct call_order *at,
                        const void *address)
{
    struct recent none = {.address = address};

    call_enter(c, operation, at->comm->handle, ROOT_NONE, address);
    c->comm = at->comm;
    c->creation = at->creation;
    c->sequence = at->sequence;
    call_note(c, &none, false);
}

/* Undo a call that failed its local argument check: it has taken part in nothing. */
static void call_retract(struct call *c)
{
    if (c->comm->next == c->sequence + 1) {
        c->comm->next = c->sequence;
        if (c->creation != NULL ? !c->creation->nonblocking : operation_form(c->operation) == 0)
            c->comm->history >>= 8;
        if (c->operation < OP_COLLECTIVES && operation_form(c->operation) == 0) {
            c->comm->blocking = c->blocking;
            if (c->comm->has_steps)
                message_epoch_add_collective(-1);
        }
    }
    if (c->record != NULL) {
        for (uint32_t i = 0; i <= c->extensions; i++)
            (c->record - i)->kind = KIND_empty;
        /* A value above 32 bits is in an extension record, which now extends the next record. */
        if (c->record->outside_ns < UINT32_MAX)
            self.unrecorded_ns += c->record->outside_ns;
    }
    c->record = NULL;
    c->shape_group = NULL;
    c->key = NULL;
    if (c->state == CALL_OBSERVED)
        c->state = CALL_SELECTED;
}

/* Return true if a failed call was rejected before it communicated. */
static bool is_refused(const struct call *c, int error)
{
    if (c->creation != NULL)
        return refusal_is_of_creation(c->creation, error);
    if (c->operation >= OP_COLLECTIVES && c->handle != MPI_COMM_NULL)
        return false; /* MPI_Finalize and MPI_Comm_disconnect */
    /* A call on a schedule of mpiprof has taken part, whatever its error. */
    return (c->algorithm == NULL || c->library_algorithm != NULL) && refusal_is_by_class(error);
}

/* Complete a call after the native routine. Returns true if the call succeeded and its arguments
 * may be read. */
bool call_end(struct call *c, int error)
{
    if (c->state == CALL_SETTLED)
        return false;
    if (c->site != NULL || c->key != NULL || c->state == CALL_OBSERVED)
        c->exit_ns = now_ns();
    record_check();
    if (error != MPI_SUCCESS) {
        if (c->comm != NULL && is_refused(c, error)) {
            call_retract(c);
            return false;
        }
        if (c->comm != NULL)
            c->comm->failed = true;
        if (c->record != NULL) {
            call_arguments_failed(c);
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
        if (!is_logged(c)) /* unknown at entry, because the communicator was unknown */
            return false;
        call_open(c);
        if (c->record != NULL) {
            c->record->enter_ns = c->enter_ns;
            c->record->exit_ns = c->exit_ns;
            record_publish(c->record, KIND_call);
        }
    }
    return c->shape_group != NULL;
}

static inline void call_settle(struct call *c)
{
    const enum call_state before = c->state;

    c->state = CALL_SETTLED;
    if (before == CALL_OBSERVED || before == CALL_SELECTED)
        hooks.ended(c, before == CALL_OBSERVED);
    interval_leave(c, c->exit_ns != 0 ? c->exit_ns : INT64_MAX, call_interval_shape(c));
}

/* Complete a failed call before the program's error handler runs, because the handler may never
 * return. */
void call_failed(struct call *c, int error)
{
    if (c->state == CALL_SETTLED)
        return;
    call_end(c, error);
    call_settle(c);
}

void call_leave(struct call *c)
{
    struct thread *const t = &self;

    call_settle(c);
    t->call = NULL;
    if (c->site == NULL) /* call_note has called function_enter */
        function_leave();
    if (presite_sample_is_on)
        presite_sample_left();
    if (c->begin_ns != 0 && c->exit_ns != 0)
        t->recorder_ns += OVERHEAD_EVERY * (c->enter_ns - c->begin_ns + now_ns() - c->exit_ns);
}

/* Return the call's site, even if the call is paused or not sampled. */
const struct site *call_site(const struct call *c)
{
    const struct site *const s = c->site != NULL ? c->site : python_site();

    return s != NULL
               ? s
               : callsite_find(self.fortran_caller != NULL ? self.fortran_caller : c->address);
}
