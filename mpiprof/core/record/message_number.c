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
 * order is unknown by then are marked with PART_UNSURE (message.c). If the program ignores the
 * status of a receive with any tag, its number is that among all messages of its source.
 *
 * Partitioned messages match only each other: the n-th start of a request is received by the n-th
 * start of the request that was created in the same order. So they have counters of their own, of
 * requests, which are in no count of the log.
 *
 * Entries live as long as the process. They are created under recorder.lock and read without it.
 */
#include <stdlib.h>

#include "base/base.h"
#include "base/recorder.h"
#include "record/message_number.h"
#include "record/record.h"

enum { MOST_PEERS = 1 << 17, MOST_COUNTS = 1 << 16 };
#define OF_REQUESTS 0x9e3779b97f4a7c15u /* part of the keys of partitioned requests */

static struct map peers; /* hash of communicator and rank -> struct message_peer * */
static uint32_t peer_count, count_number;
atomic_bool message_number_is_counted = true;

/* Return the counters of a rank of a communicator, or NULL if there are too many. partitioned: those
 * of partitioned requests. */
struct message_peer *message_number_peer(const struct communicator *comm, int rank,
                                         bool partitioned)
{
    const uint64_t key = hash_mix(comm->id, (uint64_t)rank + 1) ^ (partitioned ? OF_REQUESTS : 0);
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

/* Count a partitioned request, and return its number. */
uint32_t message_number_init(struct message_peer *peer, int tag, bool received)
{
    const uint64_t code = message_number_code(tag);

    return message_number_of(
        atomic_fetch_add(message_number_counter(peer, tag, received), code + 1), code);
}

/* Record that readers find no further counts of this process. The caller holds recorder.lock. */
static void counts_end(void)
{
    struct record *const r = record_message_count(0);

    if (r != NULL)
        r->choice = COUNTS_END;
    atomic_store(&message_number_is_counted, false);
}

/* Return the count in the log for a message, or NULL if there are too many. A reader of a job that
 * hangs compares the counts of both sides. */
struct record *message_number_create_count(struct message_peer *peer, int tag, uint32_t shape)
{
    const unsigned class = message_number_class(tag);

    recorder_lock();
    struct record *r = atomic_load(&peer->counts[class]);

    if (r == NULL && atomic_load(&message_number_is_counted)) {
        r = ++count_number <= MOST_COUNTS ? record_message_count(shape) : NULL;
        if (r != NULL)
            r->choice = (uint8_t)class;
        else
            counts_end();
        atomic_store_explicit(&peer->counts[class], r, memory_order_release);
    }
    recorder_unlock();
    return r;
}

/* Remove a message from its count in the log. */
static void count_remove(struct message_peer *peer, int tag, bool received)
{
    struct record *const r = atomic_load(&peer->counts[message_number_class(tag)]);

    if (r == NULL)
        return;
    if (received)
        __atomic_fetch_sub(&r->exit_ns, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_sub(&r->sequence, 1, __ATOMIC_RELAXED);
}

/* Undo message_number_add for a call that the library rejected. */
void message_number_return(struct message_peer *peer, int tag, bool received)
{
    atomic_fetch_sub_explicit(message_number_counter(peer, tag, received),
                              message_number_code(tag) + 1, memory_order_relaxed);
    count_remove(peer, tag, received);
}

/* Undo message_number_add for a cancelled receive. counter: the counter after it was added. Returns
 * false, and changes nothing, if later messages were counted, because their numbers are wrong. */
bool message_number_return_last(struct message_peer *peer, int tag, uint64_t counter)
{
    if (!atomic_compare_exchange_strong(message_number_counter(peer, tag, true), &counter,
                                        counter - message_number_code(tag) - 1))
        return false;
    count_remove(peer, tag, true);
    return true;
}
