/* Open requests of messages, by handle (message_request.c). */
#pragma once
#include "base/base.h"
#include "record/message_side.h"
#include "record/record.h"

struct message_request {
    struct message_request *next;
    uint64_t handle;
    struct message_side side;
    bool persistent, active;
};

enum { REQUEST_BUCKET_BITS = 12 };
extern atomic_int message_request_count;
extern pthread_mutex_t message_request_mutex;
extern struct message_request *message_request_buckets[1 << REQUEST_BUCKET_BITS];
extern struct message_request *message_request_unused;

void message_request_add(const struct message_side *side, MPI_Request handle, bool persistent);
void message_request_lose(struct message_request *r);
void message_request_set_ready(MPI_Request handle, int64_t ready_ns);
void message_request_start(struct message_request *r, int64_t now);
void message_request_complete(struct message_request *r, const void *status);

/* Lock the table for some ten instructions without cancellation points. Returns the value for
 * message_request_unlock. */
static inline bool message_request_lock(void)
{
    const bool single = single_thread_enter();

    if (!single)
        pthread_mutex_lock(&message_request_mutex);
    return single;
}

static inline void message_request_unlock(bool single)
{
    single_thread_leave(single);
    if (!single)
        pthread_mutex_unlock(&message_request_mutex);
}

/* Add to the counter, which only holders of the lock change. */
static inline void message_request_change_count(int change)
{
    atomic_store_explicit(&message_request_count,
                          atomic_load_explicit(&message_request_count, memory_order_relaxed) +
                              change,
                          memory_order_relaxed);
}

static inline struct message_request **message_request_bucket(uint64_t handle)
{
    return &message_request_buckets[handle * 0x9e3779b97f4a7c15u >> (64 - REQUEST_BUCKET_BITS)];
}

/* Return the entry of a handle, out of the table, or NULL. The caller has the lock. */
static inline struct message_request *message_request_take(MPI_Request handle)
{
    const uint64_t key = map_key(handle);
    struct message_request **p = message_request_bucket(key);

    while (*p != NULL && (*p)->handle != key)
        p = &(*p)->next;
    struct message_request *const r = *p;

    if (r != NULL) {
        *p = r->next;
        message_request_change_count(-1);
    }
    return r;
}

/* Put an entry into the table. The caller has the lock. */
static inline void message_request_put(struct message_request *r)
{
    struct message_request **const bucket = message_request_bucket(r->handle);

    r->next = *bucket;
    *bucket = r;
    message_request_change_count(1);
}

/* Return the memory of an entry that is not in the table. The caller has the lock. */
static inline void message_request_free(struct message_request *r)
{
    r->next = message_request_unused;
    message_request_unused = r;
}
