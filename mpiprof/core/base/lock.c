/* Locks of our own, in threads that the program may cancel.
 *
 * Much of what is done under a lock can be cancelled: writing, opening, reserving space. A thread
 * that goes there leaves the lock taken, and its own destructor (thread_end in record.c) then waits
 * for it, for ever. So no thread is cancelled while it holds one of ours; what was asked meanwhile
 * is done where the program itself comes to such a place.
 */
#include "base/lock.h"

static _Thread_local int held, state_before;

/* Keeps the thread from being cancelled; returns what puts back how it was. */
int lock_keep_thread(void)
{
    int state = PTHREAD_CANCEL_ENABLE;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void lock_free_thread(int state)
{
    pthread_setcancelstate(state, &state);
}

void lock_take(pthread_mutex_t *lock)
{
    const int state = lock_keep_thread();

    pthread_mutex_lock(lock);
    if (held++ == 0)
        state_before = state;
}

void lock_give(pthread_mutex_t *lock)
{
    pthread_mutex_unlock(lock);
    if (--held == 0)
        lock_free_thread(state_before);
}
