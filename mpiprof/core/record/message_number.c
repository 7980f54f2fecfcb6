/* Numbers of messages, by which both sides identify a message without communication.
 *
 * Messages between two ranks on a communicator that the same receives could match are matched in
 * the order in which they were sent. So the n-th message of a tag is the n-th on both sides. The
 * counters are per class of tags, because a program may use a new tag for each message. Messages of
 * different tags in one class may be received in another order than they were sent. Readers notice
 * that by the tag, which both sides record.
 *
 * A receive that is posted for any source or any tag is numbered when it completes. Receives whose
 * order is unknown by then are marked with PART_UNSURE (message.c).
 *
 * Entries live as long as the process. They are created under recorder.lock and read without it.
 */
#include <stdlib.h>

#include "base/base.h"
#include "base/recorder.h"
#include "record/message.h"
#include "record/record.h"

enum { MOST_PEERS = 1 << 17, MOST_COUNTS = 1 << 16 };

static struct map peers; /* hash of communicator and rank -> struct message_peer * */
static uint32_t peer_count, count_number;
static bool counts_are_visible = true; /* in the log; protected by recorder.lock */

/* Return the counters of a rank of a communicator, or NULL if there are too many. */
struct message_peer *message_number_peer(const struct communicator *comm, int rank)
{
    const uint64_t key = hash_mix(comm->id, (uint64_t)rank + 1);
    struct message_peer *peer = map_get(&peers, key);

    if (peer != NULL)
        return peer;
    recorder_lock();
    peer = map_get(&peers, key);
    if (peer == NULL && peer_count < MOST_PEERS) {
        peer = calloc(1, sizeof *peer);
        if (peer != NULL && !map_put(&peers, key, peer)) {
            free(peer);
            peer = NULL;
        }
        peer_count += peer != NULL;
    }
    recorder_unlock();
    return peer;
}

static struct record *count_find(struct message_peer *peer, int tag)
{
    return atomic_load_explicit(&peer->counts[(unsigned)tag % TAG_CLASSES], memory_order_acquire);
}

/* Record that readers find no further counts of this process. The caller holds recorder.lock. */
static void counts_end(void)
{
    struct record *const r = record_message_count(0);

    if (r != NULL)
        r->choice = COUNTS_END;
    counts_are_visible = false;
}

/* Return the count for a message, or NULL if memory is insufficient. Counts are in the log, so that
 * a reader of a job that hangs can compare both sides; beyond MOST_COUNTS they are in memory. */
static struct record *count_create(struct message_peer *peer, const struct message_part *p)
{
    const unsigned class = (unsigned)p->tag % TAG_CLASSES;

    recorder_lock();
    struct record *r = count_find(peer, p->tag);

    if (r == NULL) {
        if (counts_are_visible && ++count_number > MOST_COUNTS)
            counts_end();
        r = counts_are_visible ? record_message_count(p->shape->id) : NULL;
        if (r == NULL)
            r = calloc(1, sizeof *r);
        if (r != NULL) {
            r->choice = (uint8_t)class;
            atomic_store_explicit(&peer->counts[class], r, memory_order_release);
        }
    }
    recorder_unlock();
    return r;
}

/* Count the next message with the peer, and store its number. Returns false if memory is
 * insufficient. */
bool message_number_next(struct message_peer *peer, struct message_part *p)
{
    struct record *r = count_find(peer, p->tag);

    if (r == NULL && (r = count_create(peer, p)) == NULL)
        return false;
    record_check();
    if (p->received) {
        const int64_t last = (int64_t)p->tag << 32 | p->shape->id;

        p->number = (uint32_t)__atomic_fetch_add(&r->exit_ns, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&r->enter_ns, last, __ATOMIC_RELAXED);
    } else {
        p->number = __atomic_fetch_add(&r->sequence, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&r->outside_ns, (uint32_t)p->tag, __ATOMIC_RELAXED);
        __atomic_store_n(&r->shape, p->shape->id, __ATOMIC_RELAXED);
    }
    return true;
}

/* Return the number of the next message that is received from the peer. */
uint32_t message_number_peek(struct message_peer *peer, int tag)
{
    const struct record *const r = count_find(peer, tag);

    return r != NULL ? (uint32_t)__atomic_load_n(&r->exit_ns, __ATOMIC_RELAXED) : 0;
}

/* Undo message_number_next for a call that the library rejected. */
void message_number_return(struct message_peer *peer, int tag, bool received)
{
    struct record *const r = count_find(peer, tag);

    if (received)
        __atomic_fetch_sub(&r->exit_ns, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_sub(&r->sequence, 1, __ATOMIC_RELAXED);
}

/* Record that messages are no longer counted. */
void message_number_stop(void)
{
    recorder_lock();
    if (counts_are_visible)
        counts_end();
    recorder_unlock();
}
