/* Communicators on which Open MPI runs an algorithm that it was told.
 *
 * It looks at its control variables when a communicator is made. So each algorithm in use has a
 * duplicate of the private communicator, made with them (setting.c): for all operations one for
 * each number and size of segments, within the room that a process has for private ones (room.c).
 *
 * Made in a blocking collective of all members, at a point that all compute alike; what only one
 * can tell (room, threads, memory) is agreed before. Other communicators must not be made by them:
 * so it is made alone (making.c), and not where MPI_Comm_idup has been called, whose communicators
 * are made at some later time, in any call. One that is refused is asked for again at the 2nd, 4th,
 * 8th, ... call. They go with the private communicator.
 *
 * Threads: those of one communicator's calls, one at a time.
 */
#include "run/duplicate.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "record/comm.h"
#include "record/making.h"
#include "run/room.h"
#include "run/setting.h"
#include "schedule/schedule.h"
#include "trace/settings.h"

enum { MOST_DUPLICATES = 32 }; /* bcast has 21: 9 algorithms, 6 in 2 sizes of segments */
struct duplicate {
    MPI_Comm comm; /* MPI_COMM_NULL: refused */
    int number;
    int64_t segment;
    uint32_t asked;
};

#ifdef MPIPROF_ABI_openmpi
static bool all_can(const struct communicator *k, bool can)
{
    int64_t mine = !can, all = 1;

    return pmpi.Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_MAX, k->private) == MPI_SUCCESS &&
           all == 0;
}

static MPI_Comm make_told(const struct communicator *k, const struct duplicate *d)
{
    enum { TAG = 19940 };
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;

    if (pmpi.Comm_group(k->private, &members) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    const bool told = setting_put_all(d->number, d->segment);

    /* Those who can't tell it make one all the same: the others wait for them. */
    if (pmpi.Comm_create_group(k->private, members, TAG, &made) != MPI_SUCCESS)
        made = MPI_COMM_NULL;
    setting_back();
    pmpi.Group_free(&members);
    if (made != MPI_COMM_NULL && !told)
        pmpi.Comm_free(&made);
    return made;
}

/* Whether others would come to be made by what is put: later, or under way in other threads'
 * collectives (`han` makes its own for several nodes in the first one). */
static bool harms_others(void)
{
    return making_later() || (making_has_threads() && settings_on_node() != recorder.size);
}

/* Called by all members. */
static void make(struct communicator *k, struct duplicate *d)
{
    if (!all_can(k, !harms_others() && room_for_duplicate()))
        return;
    const bool alone = making_alone(); /* all members are here */

    if (all_can(k, alone)) {
        d->comm = make_told(k, d);
        if (!all_can(k, d->comm != MPI_COMM_NULL) && d->comm != MPI_COMM_NULL)
            pmpi.Comm_free(&d->comm);
    }
    if (alone)
        making_over();
    if (d->comm == MPI_COMM_NULL)
        return;
    pmpi.Comm_set_errhandler(d->comm, MPI_ERRORS_RETURN);
    k->duplicate_count++;
}

static struct duplicate *find(struct communicator *k, int number, int64_t segment)
{
    for (int i = 0; i < k->duplicate_asked; i++)
        if (k->duplicates[i].number == number && k->duplicates[i].segment == segment)
            return &k->duplicates[i];
    if (k->duplicate_asked == MOST_DUPLICATES)
        return NULL;
    struct duplicate *const d = &k->duplicates[k->duplicate_asked++];

    *d = (struct duplicate){.comm = MPI_COMM_NULL, .number = number, .segment = segment};
    return d;
}

/* Which has the algorithm of this number for every operation; MPI_COMM_NULL: it can't be had. k's
 * private communicator is there. */
MPI_Comm duplicate_ready(struct communicator *k, int number, int64_t segment)
{
    if (k->duplicates == NULL) {
        struct duplicate *const had = memory_get(MOST_DUPLICATES * sizeof *had);

        if (!all_can(k, had != NULL)) {
            memory_free(had);
            return MPI_COMM_NULL;
        }
        k->duplicates = had;
    }
    struct duplicate *const d = find(k, number, segment);

    if (d == NULL)
        return MPI_COMM_NULL;
    if (d->comm == MPI_COMM_NULL && is_power_of_two(++d->asked))
        make(k, d);
    return d->comm;
}
#endif

/* k's private communicator is about to go. */
void duplicate_forget(struct communicator *k)
{
    for (int i = 0; i < k->duplicate_asked; i++)
        if (k->duplicates[i].comm != MPI_COMM_NULL)
            pmpi.Comm_free(&k->duplicates[i].comm);
    memory_free(k->duplicates);
    k->duplicates = NULL;
    k->duplicate_asked = k->duplicate_count = 0;
}
