/* Communicators with which Open MPI runs a requested algorithm.
 *
 * Open MPI reads its control variables when a communicator is created. So each requested algorithm
 * has a duplicate of the private communicator, created with the variables set (mpi_t_algorithm.c).
 * One duplicate per algorithm number and segment size serves all operations. Duplicates count
 * against the process's limit (private_comm_pool.c) and are freed with the private communicator.
 *
 * A duplicate is created in a blocking collective of all members, who agree first on facts that
 * only one of them knows (limit, threads, memory). The variables must not affect other
 * communicators. So the program may create no communicator meanwhile, in any thread
 * (comm_create_lock.c). A refused duplicate is requested again at the 2nd, 4th, 8th, ... call.
 *
 * Threads: the calls of one communicator, one at a time.
 */
#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "tracefile/tracefile.h"

enum { MOST_DUPLICATES = 32 }; /* bcast has 21: 9 algorithms, 6 of them with 2 segment sizes each */
struct duplicate {
    MPI_Comm comm; /* MPI_COMM_NULL if refused */
    int number;
    int64_t segment;
    uint32_t asked;
};

#ifdef MPIPROF_ABI_openmpi
static bool all_agree(const struct communicator *k, bool can)
{
    int64_t mine = !can, all = 1;

    return pmpi.Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_MAX, private_of(k)->comm) ==
               MPI_SUCCESS &&
           all == 0;
}

static MPI_Comm duplicate_create(const struct communicator *k, const struct duplicate *d)
{
    enum { TAG = 19940 };
    MPI_Group members = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;

    if (pmpi.Comm_group(private_of(k)->comm, &members) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    const bool told = mpi_t_algorithm_set_all(d->number, d->segment);

    /* A member that could not set the variables creates one too, because the others wait for it. */
    if (pmpi.Comm_create_group(private_of(k)->comm, members, TAG, &made) != MPI_SUCCESS)
        made = MPI_COMM_NULL;
    mpi_t_algorithm_restore();
    pmpi.Group_free(&members);
    if (made != MPI_COMM_NULL && !told)
        pmpi.Comm_free(&made);
    return made;
}

/* Return true if the variables could affect the communicators that other threads' collectives create
 * (`han` does in the first one). */
static bool harms_others(void)
{
    return comm_create_lock_has_threads() && library_setting_node_processes() != recorder.size;
}

static void duplicate_make(struct communicator *k, struct duplicate *d)
{
    if (!all_agree(k, !harms_others() && private_comm_pool_allows_duplicate()))
        return;
    const bool alone = comm_create_lock_try_exclusive(); /* all members take part in this call */

    if (all_agree(k, alone && !comm_create_lock_has_pending())) {
        d->comm = duplicate_create(k, d);
        if (!all_agree(k, d->comm != MPI_COMM_NULL) && d->comm != MPI_COMM_NULL)
            pmpi.Comm_free(&d->comm);
    }
    if (alone)
        comm_create_lock_end_exclusive();
    if (d->comm == MPI_COMM_NULL)
        return;
    pmpi.Comm_set_errhandler(d->comm, MPI_ERRORS_RETURN);
    comm_state(k)->algorithms.live_count++;
}

static struct duplicate *duplicate_find(struct communicator *k, int number, int64_t segment)
{
    struct algorithm_comms *const all = &comm_state(k)->algorithms;

    for (int i = 0; i < all->count; i++)
        if (all->list[i].number == number && all->list[i].segment == segment)
            return &all->list[i];
    if (all->count == MOST_DUPLICATES)
        return NULL;
    struct duplicate *const d = &all->list[all->count++];

    *d = (struct duplicate){.comm = MPI_COMM_NULL, .number = number, .segment = segment};
    return d;
}

/* Return a duplicate that runs the algorithm of this number for every operation, or MPI_COMM_NULL.
 * The private communicator must exist. */
MPI_Comm algorithm_comm_ready(struct communicator *k, int number, int64_t segment)
{
    if (comm_state(k)->algorithms.list == NULL) {
        struct duplicate *const had = memory_allocate(MOST_DUPLICATES * sizeof *had);

        if (!all_agree(k, had != NULL)) {
            memory_free(had);
            return MPI_COMM_NULL;
        }
        comm_state(k)->algorithms.list = had;
    }
    struct duplicate *const d = duplicate_find(k, number, segment);

    if (d == NULL)
        return MPI_COMM_NULL;
    if (d->comm == MPI_COMM_NULL && is_power_of_two(++d->asked))
        duplicate_make(k, d);
    return d->comm;
}
#endif

void algorithm_comm_forget(struct communicator *k)
{
    struct algorithm_comms *const all = &comm_state(k)->algorithms;

    for (int i = 0; i < all->count; i++)
        if (all->list[i].comm != MPI_COMM_NULL)
            pmpi.Comm_free(&all->list[i].comm);
    memory_free(all->list);
    *all = (struct algorithm_comms){0};
}
