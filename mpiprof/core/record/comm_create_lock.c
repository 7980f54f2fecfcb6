/* Lock between the program's threads that create communicators and mpiprof's own creations.
 *
 * Open MPI orders concurrent creations by itself: of all creations in a process's threads, that
 * with the lowest parent is numbered first. A communicator that is created within a collective,
 * beside the program's creations in other threads, can deadlock with them. So mpiprof creates one
 * only while the process creates no other, which the members agree on (private_comm.c). The
 * program's creations wait meanwhile; the wait is short, because all members of mpiprof's
 * communicator are present by then.
 */
#include <sched.h>
#include <stdatomic.h>

#include "base/pmpi.h"
#include "base/symbol_lookup.h"
#include "record/communicator.h"

enum { OURS = -1 };

/* Return true if creation beside that of the program's other threads may deadlock. */
bool comm_create_lock_has_threads(void)
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
static atomic_int state; /* number of the program's creations in progress, or OURS */

void comm_create_lock_begin(bool *under_way)
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

void comm_create_lock_end(bool *under_way)
{
    if (*under_way)
        atomic_fetch_sub(&state, 1);
    *under_way = false;
}

/* Note that MPI_Comm_idup was called, which creates its communicator later, in any call. */
void comm_create_lock_note_later(void)
{
    atomic_store(&later, true);
}

bool comm_create_lock_later(void)
{
    return atomic_load(&later);
}

/* Take the lock. Returns false if another thread is creating a communicator. */
bool comm_create_lock_alone(void)
{
    int nobody = 0;

    return atomic_compare_exchange_strong(&state, &nobody, OURS);
}

void comm_create_lock_over(void)
{
    atomic_store(&state, 0);
}
