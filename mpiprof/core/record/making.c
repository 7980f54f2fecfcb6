/* Who is making communicators: the program in some of its threads, or we, but never both at once.
 *
 * Open MPI finds the number of a new communicator in an order of its own: of all that threads make
 * at once, that of the lowest parent first. One that is made within a collective, beside others
 * that the program makes in other threads, can wait for those, and they for it. So ours is made
 * only while this process makes no other, which its members agree on (run/private.c), and the
 * program's wait for that: not for long, as all members of ours are there by then.
 */
#include <sched.h>
#include <stdatomic.h>

#include "base/native.h"
#include "base/pmpi.h"
#include "record/making.h"

enum { OURS = -1 };

/* Whether making one beside those of the program's other threads may hang. */
bool making_has_threads(void)
{
#ifdef MPIPROF_ABI_openmpi
    int level = MPI_THREAD_MULTIPLE;

    return pmpi.Query_thread == NULL || pmpi.Query_thread(&level) != MPI_SUCCESS ||
           level == MPI_THREAD_MULTIPLE;
#else
    return false;
#endif
}

static atomic_bool later;
static atomic_int state; /* how many the program is making, or OURS */

void making_begin(bool *under_way)
{
    int now = atomic_load(&state);

    for (;;) {
        if (now != OURS && atomic_compare_exchange_weak(&state, &now, now + 1))
            break;
        if (now == OURS) {
            sched_yield();
            now = atomic_load(&state);
        }
    }
    *under_way = true;
}

void making_end(bool *under_way)
{
    if (*under_way)
        atomic_fetch_sub(&state, 1);
    *under_way = false;
}

/* One that is made at some later time, in any call: MPI_Comm_idup has been called. */
void making_note_later(void)
{
    atomic_store(&later, true);
}

bool making_later(void)
{
    return atomic_load(&later);
}

/* False: another thread makes one. */
bool making_alone(void)
{
    int nobody = 0;

    return atomic_compare_exchange_strong(&state, &nobody, OURS);
}

void making_over(void)
{
    atomic_store(&state, 0);
}
