/* The stretches of time in which every call on messages is logged (message_epochs.c). */
#pragma once
#include "base/base.h"
#include "record/record.h"

enum { LONG_CALL_NS = 20000 }; /* such calls are logged in any epoch */

enum message_level { MESSAGES_OFF, MESSAGES_SUMS, MESSAGES_AUTO, MESSAGES_ALL };
extern _Atomic enum message_level message_epoch_level;

/* Blocking collectives of all ranks; they are counted up to FIRST_COLLECTIVES. */
enum { FIRST_COLLECTIVES = 120 }; /* of 30 steps with up to 4 collectives */
extern atomic_int message_epoch_collectives;

/* The present epoch, on this node's clock, and whether it is logged completely. */
extern _Atomic int64_t message_epoch_begin_ns, message_epoch_end_ns;
extern atomic_bool message_epoch_is_complete;

void message_epoch_start(void);
void message_epoch_turn(int64_t now);
void message_epoch_count(int64_t records, int64_t bytes);
void message_epoch_pause(bool paused);
void message_epoch_stop(void);

/* Count a blocking collective, or with -1 take it back. */
static inline void message_epoch_add_collective(int number)
{
    if (atomic_load_explicit(&message_epoch_collectives, memory_order_relaxed) < FIRST_COLLECTIVES)
        atomic_fetch_add_explicit(&message_epoch_collectives, number, memory_order_relaxed);
}

/* Return true if a call is logged with its messages. Calls that began before an epoch are logged
 * with it, because a complete epoch shows what each thread does from its first moment on. */
static inline bool message_is_logged(int64_t enter_ns, int64_t now)
{
    if (atomic_load_explicit(&message_epoch_level, memory_order_relaxed) <= MESSAGES_SUMS)
        return false;
    if (now >= atomic_load_explicit(&message_epoch_end_ns, memory_order_relaxed))
        message_epoch_turn(now);
    return atomic_load_explicit(&message_epoch_is_complete, memory_order_acquire) ||
           now - enter_ns >= LONG_CALL_NS ||
           enter_ns < atomic_load_explicit(&message_epoch_begin_ns, memory_order_relaxed);
}
