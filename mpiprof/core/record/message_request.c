/* Open requests of messages, by handle.
 *
 * All receives have an entry, and those sends that may still wait for their receiver. A library may
 * return one handle for many sends that are already complete, so a new request replaces the entry of
 * its handle. A Wait or Test takes the entries of its requests out of the table, and puts those back
 * that are not complete. So no other call finds them meanwhile; MPI forbids that two threads
 * complete the same request.
 *
 * The lock is held for some ten instructions without cancellation points.
 */
#include "base/base.h"
#include "record/message.h"
#include "record/record.h"

enum { BUCKETS = 4096, MOST_REQUESTS = 1 << 20, ADDED_AT_ONCE = 64, MOST_SPARE = 64 };

atomic_int message_request_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct message_request *buckets[BUCKETS], *unused;
/* Unused entries of this thread, so that a completion needs no second lock. */
static _Thread_local struct message_request *spare;
static _Thread_local int spare_count;
static _Thread_local bool spare_is_returned; /* when the thread ends */
static pthread_key_t spare_key;
static pthread_once_t spare_once = PTHREAD_ONCE_INIT;
static bool spare_key_made;

void message_request_lock(void)
{
    pthread_mutex_lock(&lock);
}

void message_request_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Add to a counter that only holders of the lock change. */
static void counter_add(atomic_int *counter, int change)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + change,
                          memory_order_relaxed);
}

static struct message_request **bucket_of(uint64_t handle)
{
    return &buckets[(handle * 0x9e3779b97f4a7c15u) >> 52];
}

static struct message_request *entry_new(void)
{
    struct message_request **const list = spare != NULL ? &spare : &unused;

    if (*list == NULL) {
        struct message_request *const more = memory_allocate(ADDED_AT_ONCE * sizeof *more);

        for (int i = 0; more != NULL && i < ADDED_AT_ONCE; i++) {
            more[i].next = unused;
            unused = &more[i];
        }
    }
    struct message_request *const r = *list;

    if (r != NULL) {
        *list = r->next;
        spare_count -= list == &spare;
    }
    return r;
}

/* Return the entry of a handle, out of the table, or NULL. The caller has the lock. */
struct message_request *message_request_take(MPI_Request handle)
{
    const uint64_t key = map_key(handle);
    struct message_request **p = bucket_of(key);

    while (*p != NULL && (*p)->handle != key)
        p = &(*p)->next;
    struct message_request *const r = *p;

    if (r != NULL) {
        *p = r->next;
        counter_add(&message_request_count, -1);
    }
    return r;
}

/* Put an entry into the table. The caller has the lock. */
void message_request_put(struct message_request *r)
{
    struct message_request **const bucket = bucket_of(r->handle);

    r->next = *bucket;
    *bucket = r;
    counter_add(&message_request_count, 1);
}

/* Mark a message as posted or complete, and count the open receives for any source or any tag. */
static void active_set(struct message_request *r, bool active)
{
    if (r->side.numbered_late && r->active != active)
        atomic_fetch_add_explicit(&r->side.comm->receives.wildcards, active ? 1 : -1,
                                  memory_order_relaxed);
    r->active = active;
}

/* Mark the order of a communicator's receives as unknown if this one gets no number. */
static void number_lost(const struct message_side *s)
{
    if (s->numbered_late)
        atomic_store(&s->comm->receives.order_is_unknown, true);
}

/* Give up a message whose completion the recorder does not see. */
static void message_lose(struct message_request *r)
{
    if (r->active)
        number_lost(&r->side);
    active_set(r, false);
}

/* Return the unused entries of a thread that ends. */
static void spare_return(void *unused_value)
{
    (void)unused_value;
    spare_is_returned = false;
    /* In a forked child, a thread that does not exist there may own the lock. */
    if (!atomic_load(&recorder.active))
        return;
    message_request_lock();
    while (spare != NULL) {
        struct message_request *const r = spare;

        spare = r->next;
        r->next = unused;
        unused = r;
    }
    spare_count = 0;
    message_request_unlock();
}

static void spare_key_make(void)
{
    spare_key_made = pthread_key_create(&spare_key, spare_return) == 0;
}

/* Ensure that this thread's unused entries are returned when it ends. */
static bool spare_ensure(void)
{
    if (!spare_is_returned) {
        pthread_once(&spare_once, spare_key_make);
        spare_is_returned = spare_key_made && pthread_setspecific(spare_key, &spare) == 0;
    }
    return spare_is_returned;
}

/* Return the memory of an entry that is not in the table. */
void message_request_free(struct message_request *r)
{
    message_lose(r);
    if (spare_count < MOST_SPARE && spare_ensure()) {
        r->next = spare;
        spare = r;
        spare_count++;
        return;
    }
    message_request_lock();
    r->next = unused;
    unused = r;
    message_request_unlock();
}

void message_request_add(const struct message_side *side, MPI_Request handle, bool persistent)
{
    if (atomic_load_explicit(&message_request_count, memory_order_relaxed) >= MOST_REQUESTS) {
        number_lost(side);
        return;
    }
    message_request_lock();
    struct message_request *const old = message_request_take(handle);
    struct message_request *const r = old != NULL ? old : entry_new();

    if (r != NULL) {
        if (old != NULL)
            message_lose(old);
        r->handle = map_key(handle);
        r->side = *side;
        r->persistent = persistent;
        r->active = false;
        active_set(r, !persistent);
        message_request_put(r);
    } else {
        number_lost(side);
    }
    message_request_unlock();
}

/* Start a persistent request. */
void message_request_start(struct message_request *r, int64_t now)
{
    if (r->side.numbered_late) { /* the part has the source and the tag of the last message */
        r->side.part.tag = r->side.envelope.tag;
        r->side.part.shape = message_shape_of_peer(r->side.group, r->side.envelope.rank);
    }
    message_side_post(&r->side, now);
    if (!message_is_paused())
        record_totals_add(CONTENT_MESSAGES, r->side.part.shape, 1, 0,
                          r->side.part.received ? 0 : r->side.part.bytes, 0);
    active_set(r, true);
}

/* Complete the message of an entry. status: NULL if the program ignores it. */
void message_request_complete(struct message_request *r, const void *status)
{
    if (!r->active)
        return;
    active_set(r, false);
    /* While a Wait is under way, another thread can cancel its request, which only the status
     * shows. */
    if (r->side.part.received &&
        (r->side.part.flags & PART_CANCELLED || (status != NULL && status_bytes(status) < 0))) {
        r->side.part.flags |= PART_CANCELLED | PART_UNSURE;
        atomic_store(&r->side.comm->receives.order_is_unknown, true);
    }
    message_side_complete(&r->side, status);
    if (r->side.part.received && r->side.part.bytes > 0)
        record_totals_add(CONTENT_MESSAGES, r->side.part.shape, 0, 0, 0, r->side.part.bytes);
}
