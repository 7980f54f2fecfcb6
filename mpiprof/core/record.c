/* Calls and their records: the hot path.
 *
 * Each thread fills a window of its own (file.c), so that no thread waits for another. Nothing of
 * a call's arguments but its communicator is looked at before the native routine has accepted
 * them: a wrong datatype must reach the program as the library's own error. Until then the record
 * names the family's base shape (operation, communicator, call site); the bytes follow.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "recorder.h"

enum { OVERHEAD_EVERY = 64 };

_Thread_local struct thread self;

static pthread_key_t thread_key;
static bool thread_key_made; /* else key 0, which would be another's */
struct spare {               /* the window of a thread that has ended */
    struct spare *next;
    struct chunk *window;
    uint32_t used;
};
static struct spare *spares; /* under recorder.lock */
static atomic_uint threads;
static _Atomic uint64_t dropped;
static _Atomic int64_t overhead_ns;

/* ---- windows */

static void thread_end(void *unused)
{
    struct thread *const t = &self;
    struct spare *const s = malloc(sizeof *s);

    (void)unused;
    atomic_fetch_add(&overhead_ns, t->recorder_ns);
    /* In a forked child the lock may be held by a thread that is not there. */
    if (s != NULL && atomic_load(&recorder.active)) {
        *s = (struct spare){.window = t->window, .used = t->used};
        recorder_lock();
        s->next = spares;
        spares = s;
        recorder_unlock();
    } else {
        free(s);
    }
    *t = (struct thread){.refused = true};
}

static void thread_begin(struct thread *t)
{
    recorder_lock();
    struct spare *const s = spares;

    if (s != NULL) {
        spares = s->next;
        t->window = s->window;
        t->used = s->used;
        t->number = t->window->head.thread;
    }
    recorder_unlock();
    free(s);
    if (t->window == NULL) {
        t->number = atomic_fetch_add(&threads, 1);
        t->window = t->number <= UINT16_MAX ? file_window(t->number) : NULL;
    }
    if (t->window == NULL)
        t->refused = true;
    else if (thread_key_made)
        pthread_setspecific(thread_key, t);
}

static bool window_turn(struct thread *t)
{
    struct chunk *const w = t->window;

    if (!file_append(w))
        return false;
    /* While the serial is that of the appended chunk, a reader ignores the window. */
    memset(w->records, 0, sizeof w->records);
    atomic_thread_fence(memory_order_release);
    w->head.serial++;
    atomic_thread_fence(memory_order_release);
    t->used = 0;
    return true;
}

/* Whether this thread has a window now. */
bool record_window(void)
{
    struct thread *const t = &self;

    if (t->window == NULL && !t->refused &&
        !atomic_load_explicit(&recorder.stopped, memory_order_relaxed))
        thread_begin(t);
    return t->window != NULL;
}

static void drop(struct thread *t)
{
    atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
    if (t->window != NULL)
        t->window->head.dropped++;
}

/* Room for `count` records in a row, or NULL: counted as dropped. */
static struct record *slots(struct thread *t, uint32_t count)
{
    if (t->window == NULL && !t->refused)
        thread_begin(t);
    if (t->refused || atomic_load_explicit(&recorder.stopped, memory_order_relaxed)) {
        drop(t);
        return NULL;
    }
    if (t->used + count > CHUNK_RECORDS) {
        if (file_full()) /* no loss: a call is summed up instead */
            return NULL;
        if (!window_turn(t)) {
            drop(t);
            return NULL;
        }
    }
    struct record *const r = &t->window->records[t->used];

    t->used += count;
    return r;
}

static void publish(struct record *r, enum kind kind)
{
    atomic_thread_fence(memory_order_release);
    r->kind = (uint8_t)kind;
}

static void extend(struct record *r, enum extension what, int64_t value)
{
    r->sequence = (uint32_t)what;
    r->exit_ns = value;
    r->thread = (uint16_t)self.number;
    publish(r, KIND_extension);
}

/* Moves the time outside collectives into a record, with an extension where 32 bits are few. */
static struct record *record_new(struct thread *t, uint32_t extensions)
{
    const int64_t outside = t->outside_ns;
    const bool wide = outside > (int64_t)UINT32_MAX;
    struct record *r = slots(t, 1 + extensions + wide);

    if (r == NULL)
        return NULL;
    if (wide)
        extend(r++, EXT_OUTSIDE, outside);
    r += extensions;
    r->outside_ns = wide ? UINT32_MAX : (uint32_t)outside;
    r->thread = (uint16_t)t->number;
    r->choice = 0;
    t->outside_ns = 0;
    return r;
}

/* ---- the summary: totals in place of a log, four records a family and algorithm */

static struct record *summary_slots(uint32_t count)
{
    static struct thread common; /* under recorder.lock: one series of windows for all threads */

    if (common.window == NULL || common.used + count > CHUNK_RECORDS) {
        common.window = file_window(atomic_fetch_add(&threads, 1));
        common.used = 0;
    }
    if (common.window == NULL)
        return NULL;
    struct record *const r = &common.window->records[common.used];

    common.used += count;
    return r;
}

static struct record *summary_of(struct shape *f)
{
    recorder_lock();
    if (f->summary == NULL) {
        struct record *const r = summary_slots(4);

        if (r != NULL) {
            r->shape = f->id;
            extend(r + 1, EXT_SENT, 0);
            extend(r + 2, EXT_RECEIVED, 0);
            extend(r + 3, EXT_LONGEST, 0);
            publish(r, KIND_summary);
            f->summary = r;
        }
    }
    recorder_unlock();
    return f->summary;
}

/* Room for the statistics of a call site (statistics.c); NULL: there is none. Under recorder.lock.
 */
struct record *record_statistics(uint32_t shape)
{
    enum { GROUP = EXT_END - EXT_AVERAGE + 1 };
    struct record *const r = summary_slots(GROUP);

    for (int i = 1; r != NULL && i < GROUP; i++)
        extend(r + i, (enum extension)(EXT_AVERAGE + i - 1), 0);
    if (r != NULL) {
        r->shape = shape;
        publish(r, KIND_statistics);
    }
    return r;
}

static void summarise(struct family *f, const char *algorithm, int64_t elapsed, int64_t sent,
                      int64_t received)
{
    struct shape *const other =
        algorithm != NULL ? shape_find(f, algorithm, ROOT_NONE, -1, -1, 0) : NULL;
    struct shape *const s = other != NULL ? other : &f->base;
    struct record *const r = s->summary != NULL ? s->summary : summary_of(s);

    if (r == NULL) {
        drop(&self);
        return;
    }
    __atomic_fetch_add(&r[0].enter_ns, elapsed, __ATOMIC_RELAXED);
    __atomic_fetch_add(&r[0].exit_ns, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&r[1].exit_ns, sent, __ATOMIC_RELAXED);
    __atomic_fetch_add(&r[2].exit_ns, received, __ATOMIC_RELAXED);
    if (elapsed > r[3].exit_ns) /* two threads may race for the maximum: either is a long call */
        r[3].exit_ns = elapsed;
}

/* ---- calls */

static bool sampled(const struct communicator *comm, uint32_t sequence, int64_t start)
{
    const unsigned k = recorder.options.sample;

    return k <= 1 || hash_mix(hash_mix(comm->identity, sequence), (uint64_t)start) % k == 0;
}

static bool wanted(const struct call *c)
{
    if (c->comm->unrecorded)
        return false;
    if (operation_form(c->operation) == 2) /* an _init: what its starts are said of */
        return true;
    return !atomic_load_explicit(&recorder.paused, memory_order_relaxed) &&
           sampled(c->comm, c->sequence, 0);
}

/* Not records but totals: from the start, or since the log is as long as it may be. */
static bool is_summed(void)
{
    return recorder.options.summary ||
           atomic_load_explicit(&recorder.limited, memory_order_relaxed);
}

/* Whose rows a call's record refers to. The starts of a persistent operation have a number of their
 * own, where that of one of many alike would stand. NULL: there are too many. */
static const struct communicator *rows_of(const struct call *c)
{
    if (c->comm->kin == 0 || operation_form(c->operation) != 2 || is_summed())
        return c->comm;
    return handle_own(c->comm);
}

static void call_open(struct call *c)
{
    struct thread *const t = &self;

    if (c->family == NULL) {
        const struct communicator *const rows = rows_of(c);

        c->family = rows != NULL ? family_find(c->operation, rows, c->site) : NULL;
    }
    if (c->family == NULL) {
        drop(t);
        return;
    }
    if (is_summed())
        return;
    c->kin = c->family->comm->kin;
    c->wide = c->family->count >= 63;
    c->record = record_new(t, (c->wide ? 2u : 0u) + (c->kin > 0 ? 1u : 0u));
    if (c->record == NULL)
        return;
    if (c->kin > 0)
        extend(c->record - (c->wide ? 3 : 1), EXT_START, c->kin);
    c->record->sequence = c->sequence;
    c->record->shape = c->shape = c->family->base.id;
    c->record->exit_ns = 0;
}

/* Where a call comes from, and with it the family, as it was found out for the last call from this
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
    c->family = known && r->family != NULL && r->family->site == c->site ? r->family : NULL;
    call_open(c);
    r->family = c->family;
}

static inline void call_enter(struct call *c, int operation, MPI_Comm handle, int root,
                              const void *address)
{
    struct thread *const t = &self;

    t->call = c;
    *c = (struct call){.operation = operation, .handle = handle, .root = root, .address = address};
    if (++t->calls % OVERHEAD_EVERY == 0)
        c->begin_ns = now_ns();
}

/* Of a call that is counted: its site and its record, where it is to have one. */
static inline void call_note(struct call *c, struct recent *r, bool known)
{
    struct thread *const t = &self;

    if (c->comm != NULL) {
        if (!wanted(c))
            return;
        if (!recorder.options.summary && /* no site is worth finding for what is dropped */
            atomic_load_explicit(&recorder.stopped, memory_order_relaxed)) {
            drop(t);
            return;
        }
    }
    find_place(c, r, known);
    c->enter_ns = now_ns();
    if (c->record != NULL) {
        c->record->enter_ns = c->enter_ns;
        publish(c->record, KIND_call);
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
void call_begin_counted(struct call *c, int operation, struct communicator *comm, uint32_t sequence,
                        const void *address)
{
    struct recent none = {.address = address};

    call_enter(c, operation, comm->handle, ROOT_NONE, address);
    c->comm = comm;
    c->sequence = sequence;
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
        if (c->kin > 0)
            c->record[c->wide ? -3 : -1].kind = KIND_empty;
        /* What a wide one had is in an extension, which now extends the next record. */
        if (c->record->outside_ns < UINT32_MAX)
            self.outside_ns += c->record->outside_ns;
    }
    c->record = NULL;
    c->family = NULL;
}

/* After the native routine; true: it succeeded and its arguments may be read. */
bool call_end(struct call *c, int error)
{
    if (c->settled)
        return false;
    if (c->site != NULL || c->key != NULL || c->watched)
        c->exit_ns = now_ns();
    if (error != MPI_SUCCESS) {
        /* Windows and files have no communicator's handle. */
        const bool makes = c->operation >= OP_COLLECTIVES && c->handle != MPI_COMM_NULL;

        /* On an algorithm of ours it has taken part, whatever came of it. */
        c->refused = c->comm != NULL && c->algorithm == NULL && error_is_local(error, makes);
        if (c->comm != NULL && !c->refused)
            c->comm->failed = true;
        if (c->refused) {
            call_retract(c);
        } else if (c->record != NULL) {
            const struct shape *const s =
                shape_find(c->family, c->algorithm, c->root, -1, -1, FLAG_ERROR);

            c->record->shape = s != NULL ? s->id : c->shape;
            c->record->exit_ns = c->exit_ns;
        }
        return false;
    }
    if (c->comm == NULL && c->handle != MPI_COMM_NULL) {
        c->comm = comm_adopt(c->handle);
        if (c->comm == NULL) {
            drop(&self);
            return false;
        }
        c->sequence = c->comm->next++;
        if (c->comm->unrecorded)
            return false;
        call_open(c);
        if (c->record != NULL) {
            c->record->enter_ns = c->enter_ns;
            c->record->exit_ns = c->exit_ns;
            publish(c->record, KIND_call);
        }
    }
    return c->family != NULL;
}

/* The program's error handler will be asked, which may never return: all is done that is to be done
 * of this call. */
void call_failed(struct call *c, int error)
{
    if (c->settled)
        return;
    call_end(c, error);
    if (c->inside)
        switch_end(c);
    c->settled = true;
}

/* Bytes, root and flags of an accepted call. */
void call_traffic(struct call *c, const struct arguments *a)
{
    int64_t sent = 0, received = 0;
    uint32_t flags = 0;

    traffic(c, a, &sent, &received, &flags);
    if (c->comm->inter) /* the same numbers under every MPI */
        c->root = c->root == MPI_ROOT ? -3 : c->root == MPI_PROC_NULL ? -2 : c->root;
    if (c->record == NULL) {
        if (is_summed())
            summarise(c->family, c->algorithm, c->exit_ns - c->enter_ns, sent, received);
        return;
    }
    const struct shape *s = shape_find(c->family, c->algorithm, c->root, sent, received, flags);

    if (s == NULL) {
        s = shape_find(c->family, c->algorithm, c->root, -1, -1, flags);
        if (c->wide) {
            extend(c->record - 2, EXT_SENT, sent);
            extend(c->record - 1, EXT_RECEIVED, received);
        }
    }
    if (s != NULL)
        c->record->shape = c->shape = s->id;
    c->record->choice = c->choice;
    atomic_thread_fence(memory_order_release);
    c->record->exit_ns = c->exit_ns;
}

void call_leave(struct call *c)
{
    struct thread *const t = &self;

    if (!c->settled && c->inside) {
        c->settled = true;
        switch_end(c);
    }
    t->call = NULL;
    if (c->begin_ns != 0 && c->exit_ns != 0)
        t->recorder_ns += OVERHEAD_EVERY * (c->enter_ns - c->begin_ns + now_ns() - c->exit_ns);
}

/* ---- nonblocking and persistent operations */

static void record_of_request(const struct request *r, enum kind kind, int64_t enter_ns,
                              int64_t exit_ns)
{
    struct record *const made = record_new(&self, r->starts > 0 ? 1 : 0);

    if (made == NULL)
        return;
    if (r->starts > 0)
        extend(made - 1, EXT_START, r->starts);
    made->sequence = r->sequence;
    made->shape = r->shape;
    made->enter_ns = enter_ns;
    made->exit_ns = exit_ns;
    publish(made, kind);
}

static bool request_wanted(const struct request *r)
{
    const struct communicator c = {.identity = r->identity};

    return !is_summed() && sampled(&c, r->sequence, r->persistent ? r->starts : 0);
}

void record_start(const struct request *r, int64_t enter_ns, int64_t exit_ns)
{
    if (!atomic_load(&recorder.paused) && request_wanted(r))
        record_of_request(r, KIND_start, enter_ns, exit_ns);
}

void record_completion(const struct request *r, int64_t enter_ns, int64_t exit_ns)
{
    if (request_wanted(r))
        record_of_request(r, KIND_completion, enter_ns, exit_ns);
}

/* ---- start and end */

void record_start_up(void)
{
    thread_key_made = pthread_key_create(&thread_key, thread_end) == 0;
}

/* MPI_Pcontrol(2): what this thread has recorded goes to the log. The window is in the page cache
 * already; this makes it part of the log proper. */
void record_flush(void)
{
    struct thread *const t = &self;

    /* Not from a callback within a call: that call's record is open in this window. */
    if (t->call == NULL && t->window != NULL && t->used > 0 && !atomic_load(&recorder.stopped))
        window_turn(t);
}

int64_t record_overhead_ns(void)
{
    return atomic_load(&overhead_ns) + self.recorder_ns;
}

uint64_t record_dropped(void)
{
    return atomic_load(&dropped);
}
