/* Numbers of messages, by which both sides identify a message without communication.
 *
 * Messages between two ranks on a communicator that the same receives could match are matched in
 * the order in which they were sent. So the n-th message of a tag is the n-th on both sides. The
 * counters are per class of tags, because a program may use a new tag for each message. Messages of
 * different tags in one class may be received in another order than they were sent. So the number
 * of a message also contains a code of the earlier tags in its class. On both sides of a message
 * the numbers are equal only if equally many messages of each tag came before it.
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

enum { MOST_PEERS = 1 << 17, MOST_COUNTS = 1 << 16, COUNT_BITS = 18 };

static struct map peers; /* hash of communicator and rank -> struct message_peer * */
static uint32_t peer_count, count_number;
static atomic_bool counts_are_visible = true; /* further counts are in the log */

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

static uint64_t code_of(int tag)
{
    return hash_mix((uint64_t)tag, 0) << 32;
}

/* Return the number of the next message: the count of its class if all earlier messages had its
 * tag. Otherwise the upper bits differ. */
static uint32_t number_of(uint64_t counter, uint64_t code)
{
    const uint64_t other_tags = counter - (counter & UINT32_MAX) * (code + 1);

    return (uint32_t)counter + ((uint32_t)(other_tags >> 32) << COUNT_BITS);
}

static _Atomic uint64_t *counter_of(struct message_peer *peer, int tag, bool received)
{
    return &(received ? peer->received : peer->sent)[(unsigned)tag % TAG_CLASSES];
}

/* Record that readers find no further counts of this process. The caller holds recorder.lock. */
static void counts_end(void)
{
    struct record *const r = record_message_count(0);

    if (r != NULL)
        r->choice = COUNTS_END;
    atomic_store(&counts_are_visible, false);
}

/* Return the count in the log for a message, or NULL if there are too many. A reader of a job that
 * hangs compares the counts of both sides. */
static struct record *count_create(struct message_peer *peer, const struct message_part *p)
{
    const unsigned class = (unsigned)p->tag % TAG_CLASSES;

    recorder_lock();
    struct record *r = atomic_load(&peer->counts[class]);

    if (r == NULL && atomic_load(&counts_are_visible)) {
        r = ++count_number <= MOST_COUNTS ? record_message_count(p->shape->id) : NULL;
        if (r != NULL)
            r->choice = (uint8_t)class;
        else
            counts_end();
        atomic_store_explicit(&peer->counts[class], r, memory_order_release);
    }
    recorder_unlock();
    return r;
}

/* Add a message to its count in the log. */
static void count_add(struct message_peer *peer, const struct message_part *p)
{
    struct record *r =
        atomic_load_explicit(&peer->counts[(unsigned)p->tag % TAG_CLASSES], memory_order_acquire);

    if (r == NULL && atomic_load_explicit(&counts_are_visible, memory_order_relaxed))
        r = count_create(peer, p);
    if (r == NULL)
        return;
    record_check();
    const bool single = record_thread_is_single();

    if (p->received) {
        const int64_t last = (int64_t)p->tag << 32 | p->shape->id;

        if (single)
            r->exit_ns++;
        else
            __atomic_fetch_add(&r->exit_ns, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&r->enter_ns, last, __ATOMIC_RELAXED);
    } else {
        if (single)
            r->sequence++;
        else
            __atomic_fetch_add(&r->sequence, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&r->outside_ns, (uint32_t)p->tag, __ATOMIC_RELAXED);
        __atomic_store_n(&r->shape, p->shape->id, __ATOMIC_RELAXED);
    }
}

/* Return the number of the next message with the peer, and count it. */
uint32_t message_number_next(struct message_peer *peer, const struct message_part *p)
{
    _Atomic uint64_t *const counter = counter_of(peer, p->tag, p->received);
    const uint64_t code = code_of(p->tag);

    count_add(peer, p);
    return number_of(atomic_fetch_add_explicit(counter, code + 1, memory_order_relaxed), code);
}

/* Return the number of the next message that is received from the peer. */
uint32_t message_number_peek(struct message_peer *peer, int tag)
{
    _Atomic uint64_t *const counter = counter_of(peer, tag, true);

    return number_of(atomic_load_explicit(counter, memory_order_relaxed), code_of(tag));
}

/* Undo message_number_next for a call that the library rejected. */
void message_number_return(struct message_peer *peer, int tag, bool received)
{
    struct record *const r = atomic_load(&peer->counts[(unsigned)tag % TAG_CLASSES]);

    atomic_fetch_sub_explicit(counter_of(peer, tag, received), code_of(tag) + 1,
                              memory_order_relaxed);
    if (r == NULL)
        return;
    if (received)
        __atomic_fetch_sub(&r->exit_ns, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_sub(&r->sequence, 1, __ATOMIC_RELAXED);
}

/* Record that messages are no longer counted. */
void message_number_stop(void)
{
    recorder_lock();
    if (atomic_load(&counts_are_visible))
        counts_end();
    recorder_unlock();
}
