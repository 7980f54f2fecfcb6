/* Reductions that are active when their communicator is freed. They are completed later.
 *
 * Called by any thread; the list is protected by recorder.lock.
 */
#include "selection/online/auto.h"

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "selection/online/arrival.h"

struct dropped {
    struct dropped *next;
    struct arrivals *arrivals; /* unfinished reductions */
    MPI_Comm *comm; /* shared by all entries of one communicator; the last entry frees it */
    int *users;
};
static struct dropped *dropped;

/* Take ownership of the reductions of an unused communicator, and free `comm` when they are done.
 * All members call it with the same arguments. */
void orphaned_reduction_add(struct arrivals **all, int count, MPI_Comm comm)
{
    MPI_Comm *const shared = memory_allocate(sizeof *shared);
    int *const users = memory_allocate(sizeof *users);

    if (shared == NULL || users == NULL)
        return; /* the memory leaks, and the active reductions complete without the recorder */
    *shared = comm;
    recorder_lock();
    for (int i = 0; i < count; i++)
        if (all[i]->stage == 0) {
            arrivals_free(all[i]);
        } else {
            struct dropped *const d = memory_allocate(sizeof *d);

            if (d == NULL)
                continue;
            *d = (struct dropped){dropped, all[i], shared, users};
            ++*users;
            dropped = d;
        }
    const int waiting = *users; /* after the unlock, other threads may complete reductions */

    recorder_unlock();
    if (waiting > 0)
        return;
    if (comm != MPI_COMM_NULL)
        pmpi.Comm_free(shared);
    memory_free(shared);
    memory_free(users);
}

/* Free the completed reductions, and with the last one its communicator. */
void orphaned_reduction_release(void)
{
    struct dropped *list, *kept = NULL;

    recorder_lock();
    list = dropped;
    dropped = NULL;
    recorder_unlock();
    while (list != NULL) {
        struct dropped *const d = list;

        list = d->next;
        if (!arrivals_are_done(d->arrivals)) {
            d->next = kept;
            kept = d;
            continue;
        }
        arrivals_free(d->arrivals);
        if (--*d->users == 0) {
            if (*d->comm != MPI_COMM_NULL)
                pmpi.Comm_free(d->comm);
            memory_free(d->comm);
            memory_free(d->users);
        }
        memory_free(d);
    }
    recorder_lock();
    while (kept != NULL) {
        struct dropped *const d = kept;

        kept = d->next;
        d->next = dropped;
        dropped = d;
    }
    recorder_unlock();
}

bool orphaned_reductions_exist(void)
{
    return dropped != NULL;
}
