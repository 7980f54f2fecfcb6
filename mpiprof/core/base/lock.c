/* Mutexes of the recorder, in threads that the program may cancel.
 *
 * Many calls under a lock are cancellation points: writing, opening, reserving space. A cancelled
 * thread would leave the lock taken, and its destructor (thread_end in record.c) would wait for it
 * forever. So no thread can be cancelled while it holds a lock of the recorder. A pending
 * cancellation takes effect at the program's next cancellation point.
 */
#include "base/base.h"

static _Thread_local int lock_depth, state_before;

/* Disable cancellation of the thread. Returns the previous state for lock_restore_cancel. */
int lock_disable_cancel(void)
{
    int state = PTHREAD_CANCEL_ENABLE;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

void lock_restore_cancel(int state)
{
    pthread_setcancelstate(state, &state);
}

void lock_acquire(pthread_mutex_t *lock)
{
    const int state = lock_disable_cancel();

    pthread_mutex_lock(lock);
    if (lock_depth++ == 0)
        state_before = state;
}

void lock_release(pthread_mutex_t *lock)
{
    pthread_mutex_unlock(lock);
    if (--lock_depth == 0)
        lock_restore_cancel(state_before);
}
