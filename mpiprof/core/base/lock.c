/* Mutexes of the recorder, in threads that the program may cancel.
 *
 * Many calls under a lock are cancellation points: writing, opening, reserving space. A cancelled
 * thread would leave the lock taken, and its destructor (thread_end in record.c) would wait for it
 * forever. So no thread can be cancelled while it holds a lock of the recorder. A pending
 * cancellation takes effect at the program's next cancellation point.
 */
#include "base/base.h"

static _Thread_local int held, state_before;

/* Disable cancellation of the thread. Returns the previous state for lock_free_thread. */
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
