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

enum { MOST_PEERS = 1 << 17 };

static struct map peers; /* hash of communicator and rank -> struct message_peer * */
static uint32_t peer_count;

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

static _Atomic uint32_t *counter_of(struct message_peer *peer, int tag, bool received)
{
    return &(received ? peer->received : peer->sent)[(unsigned)tag % TAG_CLASSES];
}

/* Return the number of the next message with the peer, and count it. */
uint32_t message_number_next(struct message_peer *peer, int tag, bool received)
{
    return atomic_fetch_add_explicit(counter_of(peer, tag, received), 1, memory_order_relaxed);
}

/* Return the number of the next message with the peer. */
uint32_t message_number_peek(struct message_peer *peer, int tag, bool received)
{
    return atomic_load_explicit(counter_of(peer, tag, received), memory_order_relaxed);
}

/* Undo message_number_next for a call that the library rejected. */
void message_number_return(struct message_peer *peer, int tag, bool received)
{
    atomic_fetch_sub_explicit(counter_of(peer, tag, received), 1, memory_order_relaxed);
}
