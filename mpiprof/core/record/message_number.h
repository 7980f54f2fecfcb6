/* Numbers of messages, by which both sides identify a message without communication
 * (message_number.c). */
#pragma once
#include "base/base.h"
#include "record/call.h"
#include "record/record.h"
#include "tracefile/event.h"

/* Messages with one peer on one communicator. Both sides count the messages of each class of tags
 * (tag modulo TAG_CLASSES) in the order in which MPI matches them. A counter contains the number of
 * messages in its lower half, and the sum of the codes of their tags in its upper half. */
struct message_peer {
    _Atomic uint64_t sent[TAG_CLASSES], received[TAG_CLASSES];
    struct record *_Atomic counts[TAG_CLASSES]; /* numbers of messages in the log, or NULL */
    atomic_uint last_receive;     /* number of the last receive beside a wildcard (open_receives) */
    atomic_uint untagged;         /* posted receives of its messages with any tag, in no counter */
    atomic_bool tags_are_unknown; /* the counters lack one of them, whose tag was never known */
    atomic_bool order_is_unknown; /* one of them was cancelled */
    /* calls that have numbered a message and not returned */
    _Atomic uint16_t sending[TAG_CLASSES], receiving[TAG_CLASSES];
};

enum { NUMBER_COUNT_BITS = 18 };
extern atomic_bool message_number_is_counted; /* further counts are in the log */

struct message_peer *message_number_peer(const struct communicator *comm, int rank,
                                         bool partitioned);
uint32_t message_number_init(struct message_peer *peer, int tag, bool received);
struct record *message_number_create_count(struct message_peer *peer, int tag, uint32_t shape);
void message_number_return(struct message_peer *peer, int tag, bool received);
bool message_number_return_last(struct message_peer *peer, int tag, uint64_t counter);

static inline unsigned message_number_class(int tag)
{
    return (unsigned)tag % TAG_CLASSES;
}

static inline _Atomic uint64_t *message_number_counter(struct message_peer *peer, int tag,
                                                       bool received)
{
    return &(received ? peer->received : peer->sent)[message_number_class(tag)];
}

/* Return the number of receives for a peer so far, and add one with any tag. */
static inline uint32_t message_number_add_untagged(struct message_peer *peer)
{
    uint32_t count = atomic_fetch_add_explicit(&peer->untagged, 1, memory_order_relaxed);

    for (int i = 0; i < TAG_CLASSES; i++)
        count += (uint32_t)atomic_load_explicit(&peer->received[i], memory_order_relaxed);
    return count;
}

/* Return a tag's code in the upper half. Sums of codes of different tags differ. */
static inline uint64_t message_number_code(int tag)
{
    const uint64_t x = ((uint64_t)tag + 1) * 0x9e3779b97f4a7c15u;

    return (x ^ x >> 32) * 0xd6e8feb86659fd93u >> 32 << 32;
}

/* Return the number of the next message: the count of its class if all earlier messages had its
 * tag. Otherwise the upper bits differ. */
static inline uint32_t message_number_of(uint64_t counter, uint64_t code)
{
    const uint64_t other_tags = counter - (counter & UINT32_MAX) * (code + 1);

    return (uint32_t)counter + ((uint32_t)(other_tags >> 32) << NUMBER_COUNT_BITS);
}

/* Add a message to its count in the log. */
static inline void message_number_count(struct record *r, int tag, uint32_t shape, bool received,
                                        bool single)
{
    if (received) {
        record_add(&r->exit_ns, 1, single);
        __atomic_store_n(&r->enter_ns, (int64_t)tag << 32 | shape, __ATOMIC_RELAXED);
        return;
    }
    if (single)
        r->sequence++;
    else
        __atomic_fetch_add(&r->sequence, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&r->outside_ns, (uint32_t)tag, __ATOMIC_RELAXED);
    __atomic_store_n(&r->shape, shape, __ATOMIC_RELAXED);
}

/* A counter and the calls under way, before a message was added. */
struct message_added {
    uint64_t counter;
    uint16_t calls;
};

/* Add a message to the counter of its peer. shape: its number. calls: 1 if a call begins. */
static inline struct message_added message_number_add(struct message_peer *peer, int tag,
                                                      uint64_t code, uint32_t shape, bool received,
                                                      uint16_t calls)
{
    const unsigned class = message_number_class(tag);
    _Atomic uint64_t *const counter = &(received ? peer->received : peer->sent)[class];
    _Atomic uint16_t *const under_way = &(received ? peer->receiving : peer->sending)[class];
    struct record *r = atomic_load_explicit(&peer->counts[class], memory_order_acquire);
    struct message_added before;

    if (r == NULL && atomic_load_explicit(&message_number_is_counted, memory_order_relaxed))
        r = message_number_create_count(peer, tag, shape);
    const bool single = single_thread_enter();

    if (single) {
        before.calls = 0;
        atomic_store_explicit(
            under_way, (uint16_t)(atomic_load_explicit(under_way, memory_order_relaxed) + calls),
            memory_order_relaxed);
        before.counter = atomic_load_explicit(counter, memory_order_relaxed);
        atomic_store_explicit(counter, before.counter + code + 1, memory_order_relaxed);
    } else {
        before.calls = calls > 0 ? atomic_fetch_add(under_way, calls) : 0;
        before.counter = atomic_fetch_add(counter, code + 1);
    }
    if (r != NULL)
        message_number_count(r, tag, shape, received, single);
    single_thread_leave(single);
    return before;
}

/* End a call that has added a message. Returns the counter. */
static inline uint64_t message_number_leave(struct message_peer *peer, int tag, bool received)
{
    const unsigned class = message_number_class(tag);
    _Atomic uint16_t *const under_way = &(received ? peer->receiving : peer->sending)[class];
    const bool single = single_thread_enter();
    const uint64_t counter = atomic_load(&(received ? peer->received : peer->sent)[class]);

    if (single)
        atomic_store_explicit(under_way,
                              (uint16_t)(atomic_load_explicit(under_way, memory_order_relaxed) - 1),
                              memory_order_relaxed);
    else
        atomic_fetch_sub(under_way, 1);
    single_thread_leave(single);
    return counter;
}
