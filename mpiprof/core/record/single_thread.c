/* Sections that need no lock while only one thread of the process calls MPI.
 *
 * The first thread enters a section by a plain store and load, which cost no more than a comparison.
 * A processor may perform the load first. So another thread, before its first section, requires a
 * barrier of all processors that run this process (membarrier), and then waits until the first
 * thread has left its section. From then on, all threads use locks and atomic operations.
 *
 * If the kernel has no such barrier, all threads do so from the start.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/record.h"

/* linux/membarrier.h, which old systems lack */
enum { BARRIER = 1 << 3, BARRIER_REGISTER = 1 << 4 };

atomic_bool single_thread_is_over = true, single_thread_is_inside;
static atomic_uint threads; /* that have called MPI */

static bool barrier_call(int command)
{
#ifdef SYS_membarrier
    return syscall(SYS_membarrier, command, 0) == 0;
#else
    (void)command;
    return false;
#endif
}

/* Runs before MPI_Init, when registration is fast because most processes have a single thread. */
void single_thread_start(void)
{
    atomic_store(&single_thread_is_over, !barrier_call(BARRIER_REGISTER));
}

/* Add the calling thread, which is about to record its first call. */
void single_thread_add(void)
{
    static atomic_bool first_has_left;

    if (atomic_fetch_add(&threads, 1) == 0 || atomic_load(&first_has_left))
        return;
    /* Several threads may arrive here at once, and each has to wait. */
    atomic_store(&single_thread_is_over, true);
    barrier_call(BARRIER);
    while (atomic_load(&single_thread_is_inside))
        sched_yield();
    atomic_store(&first_has_left, true);
}
