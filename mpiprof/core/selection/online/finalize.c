/* The end of keys, with their communicator and in MPI_Finalize.
 *
 * Duplicates of a communicator inherit the choices of its keys. Reductions that are active when
 * their communicator is freed are completed later.
 *
 * Threads: any; the list of these reductions is protected by recorder.lock.
 */
#include <time.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/private_comm.h"
#include "selection/online/key.h"
#include "selection/online/key_log.h"
#include "selection/online/selection.h"

struct orphans { /* unfinished reductions of a communicator, which is freed with the last one */
    struct orphans *next;
    MPI_Comm comm; /* or MPI_COMM_NULL */
    int count;
    struct arrivals *list[];
};
static struct orphans *orphans;

/* Free the completed reductions. Returns true if all are completed and `o` is freed. */
static bool orphans_free(struct orphans *o)
{
    while (o->count > 0 && arrivals_are_done(o->list[o->count - 1]))
        arrivals_free(o->list[--o->count]);
    if (o->count > 0)
        return false;
    if (o->comm != MPI_COMM_NULL)
        pmpi.Comm_free(&o->comm);
    memory_free(o);
    return true;
}

static void orphans_release(void)
{
    struct orphans *list, *active = NULL, **end = &active;

    recorder_lock();
    list = orphans;
    orphans = NULL;
    recorder_unlock();
    while (list != NULL) {
        struct orphans *const o = list;

        list = o->next;
        if (!orphans_free(o)) {
            *end = o;
            end = &o->next;
        }
    }
    recorder_lock();
    *end = orphans;
    orphans = active;
    recorder_unlock();
}

/* Release `keys`, and `comm` unless it is MPI_COMM_NULL. All members call it with the same
 * arguments. */
void finalize_free(struct key *keys, int count, MPI_Comm comm)
{
    struct orphans *const o =
        memory_allocate(sizeof *o + (size_t)count * sizeof(struct arrivals *));

    if (o == NULL)
        return; /* the memory leaks, and the active reductions complete without the recorder */
    o->comm = comm;
    for (int i = 0; i < count; i++) {
        struct selection *const s = keys[i].selection;

        if (s == NULL)
            continue;
        if (s->choice.state == STATE_PROBE)
            model_correction_note(s);
        key_log_end(s);
        if (s->arrivals->stage > 0)
            o->list[o->count++] = s->arrivals;
        else
            arrivals_free(s->arrivals);
        memory_free(s);
        keys[i].selection = NULL;
    }
    if (o->count == 0) {
        orphans_free(o);
    } else {
        recorder_lock();
        o->next = orphans;
        orphans = o;
        recorder_unlock();
    }
    if (auto_is_collecting)
        orphans_release();
}

void finalize_inherit(struct key *child, const struct key *parent)
{
    const struct selection *const s = parent->selection;

    if (s == NULL || s->choice.state != STATE_CHOSEN || s->choice.current == NATIVE) {
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

/* Complete the unfinished windows, so that they count in the statistics. Every pass starts all
 * reductions before it waits for one. */
void finalize_windows(struct selection **list, int count, int64_t deadline)
{
    enum { PASSES = 5 }; /* two stages for the last window, two for the unfinished one */
    int active = 0;

    for (int i = 0; i < count; i++)
        if (!list[i]->choice.abandoned && private_comm_exists(list[i]->log->comm))
            list[active++] = list[i];
    for (int pass = 0; pass < PASSES; pass++) {
        for (int i = 0; i < active; i++)
            while (list[i]->arrivals->stage > 0 && !arrivals_are_done(list[i]->arrivals))
                if (now_ns() > deadline) /* a member does not answer */
                    return;
        for (int i = 0; i < active; i++)
            if (arrivals_advance(list[i]->arrivals, private_of(list[i]->log->comm)->comm))
                statistics_add_window(list[i]);
    }
}

/* Complete the reductions of freed communicators, after which no reduction starts. */
void finalize_orphans(int64_t deadline)
{
    const struct timespec pause = {.tv_nsec = 100000};

    while (orphans != NULL && now_ns() < deadline) {
        orphans_release();
        if (orphans != NULL)
            nanosleep(&pause, NULL);
    }
    sum_max_reduce_close();
}
