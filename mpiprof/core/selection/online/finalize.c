/* The end of keys, with their communicator and in MPI_Finalize.
 *
 * Active reductions are completed later (orphaned_reductions.c). Duplicates of a communicator
 * inherit the choices of its keys.
 */
#include <time.h>

#include "base/base.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "executor/private_comm.h"
#include "record/communicator.h"
#include "selection/online/arrival.h"
#include "selection/online/auto.h"
#include "selection/online/candidates.h"
#include "selection/online/current_choice.h"
#include "selection/online/key_log.h"
#include "selection/online/selection.h"
#include "selection/online/sum_max_reduce.h"
#include "selection/rules/key.h"

/* Release `keys`, and `comm` unless it is MPI_COMM_NULL. All members call it with the same
 * arguments. */
void finalize_free(struct key *keys, int count, MPI_Comm comm)
{
    struct arrivals **const all = memory_allocate(((size_t)count + 1) * sizeof(struct arrivals *));
    int found = 0;

    if (all == NULL)
        return; /* the memory leaks */
    for (int i = 0; i < count; i++)
        if (keys[i].selection != NULL) {
            if (keys[i].selection->choice.state == STATE_PROBE)
                model_correction_note(keys[i].selection);
            key_log_end(keys[i].selection);
            all[found++] = keys[i].selection->arrivals;
            memory_free(keys[i].selection);
            keys[i].selection = NULL;
        }
    orphaned_reduction_add(all, found, comm);
    memory_free(all);
    if (auto_is_collecting)
        orphaned_reduction_release();
}

void finalize_inherit(struct key *child, const struct key *parent)
{
    const struct selection *const s = parent->selection;

    if (s == NULL || s->choice.state != STATE_HOLD || s->choice.current == NATIVE) {
        child->inherited = parent->inherited;
        child->inherited_gain_ns = parent->inherited_gain_ns;
        child->inherited_price_ns = parent->inherited_price_ns;
        return;
    }
    const struct candidate *const c = &s->list[s->choice.current];

    child->inherited = c->variant;
    child->inherited_gain_ns = s->observed.native_ns - rank_test_median(c);
    child->inherited_price_ns = s->observed.private_ns;
}

/* Complete the unfinished windows, so that they count in the statistics. With 10^4 keys only the
 * first MOST do. */
static void windows_complete(int64_t deadline)
{
    /* two stages for the last window, two for the unfinished one */
    enum { MOST = 4096, PASSES = 5 };
    static struct key *keys[MOST];
    static struct communicator *owners[MOST];
    static struct arrivals *all[MOST];
    static MPI_Comm comms[MOST];
    const int found = keys_collected(keys, owners, MOST);
    int count = 0;

    for (int i = 0; i < found; i++)
        if (!keys[i]->selection->choice.abandoned && private_comm_exists(owners[i])) {
            keys[count] = keys[i];
            owners[count] = owners[i];
            comms[count] = private_of(owners[i])->comm;
            all[count++] = keys[i]->selection->arrivals;
        }
    for (int pass = 0; pass < PASSES; pass++) {
        bool under_way[MOST];

        for (int i = 0; i < count; i++)
            under_way[i] = all[i]->stage == 2;
        if (!arrivals_pass(all, comms, count, deadline))
            return;
        for (int i = 0; i < count; i++)
            if (under_way[i])
                statistics_add_window(keys[i]->selection, owners[i]);
    }
}

/* Complete the reductions of freed communicators in MPI_Finalize, on all ranks. After one second
 * they are left to the library. */
void finalize_run(void)
{
    const struct timespec pause = {.tv_nsec = 100000};
    const int64_t deadline = now_ns() + INT64_C(1000000000);

    if (!auto_is_collecting)
        return;
    if (recorder.options.totals)
        windows_complete(deadline);
    keys_end();
    while (orphaned_reductions_exist() && now_ns() < deadline) {
        orphaned_reduction_release();
        if (orphaned_reductions_exist())
            nanosleep(&pause, NULL);
    }
    sum_max_reduce_close();
}
