/* In-situ statistics of call sites. The log stores a fixed group of records per call site in place
 * of events.
 *
 *   statistics   shape: the call site; enter_ns: sum of the mean elapsed times;
 *                exit_ns: instances
 *   extensions   sums of delta, omega and waits, the maximum of omega, sums of scores, instances
 *                with omega < T, the rank that was last most often and how often
 *
 * The member that leads a communicator updates the records in place after each window, so a killed
 * job loses only its last windows. Protected by recorder.lock, because communicators and threads
 * share call sites.
 */
#include <stdlib.h>

#include "record/call.h"
#include "selection/online/key_log.h"

struct statistics {
    struct record *records;
    int members;
    uint32_t last[]; /* by rank of the communicator: number of instances in which it was last */
};

static struct map known; /* by shape group */

static struct statistics *statistics_of(const struct shape_group *f)
{
    const int members = f->comm->size + f->comm->remote_size;
    struct statistics *s = map_get(&known, f->base.id);

    if (s != NULL)
        return s;
    s = calloc(1, sizeof *s + (size_t)members * sizeof *s->last);
    if (s == NULL)
        return NULL;
    s->members = members;
    s->records = record_statistics(f->base.id);
    if (s->records != NULL && map_put(&known, f->base.id, s))
        return s;
    free(s);
    return NULL;
}

static void sum_add(struct statistics *s, enum extension what, int64_t value)
{
    int64_t *const sum = &s->records[what - EXT_AVERAGE + 1].exit_ns;

    /* overflow needs 10^5 members that wait for 25 hours */
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = INT64_MAX;
}

/* Add one instance to the statistics of its call site, as the communicator's leader sees it. */
static void statistics_add(struct shape_group *f, const struct sample *r, int64_t message_ns)
{
    recorder_lock();
    struct statistics *const s = statistics_of(f);

    if (s != NULL) {
        struct record *const most = &s->records[EXT_LATEST - EXT_AVERAGE + 1];
        struct record *const worst = &s->records[EXT_WORST_MOST - EXT_AVERAGE + 1];

        record_check();
        s->records[0].enter_ns += r->elapsed;
        s->records[0].exit_ns++;
        sum_add(s, EXT_AVERAGE, r->average);
        sum_add(s, EXT_WORST, r->worst);
        sum_add(s, EXT_WAIT, r->wait);
        sum_add(s, EXT_SCORE, r->score);
        sum_add(s, EXT_BALANCED, r->worst < message_ns);
        worst->exit_ns = r->worst > worst->exit_ns ? r->worst : worst->exit_ns;
        if (r->latest >= 0 && r->latest < s->members &&
            ++s->last[r->latest] >= (uint32_t)most->exit_ns) {
            most->enter_ns = r->latest;
            most->exit_ns = s->last[r->latest];
        }
    }
    recorder_unlock();
}

/* Add a window with complete results, on the communicator's leader. */
void statistics_add_window(const struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    for (int i = 0; i < w->count && comm_is_leader(s->log->comm); i++)
        if (w->finished[i].shape_group != NULL)
            statistics_add(w->finished[i].shape_group, &w->results[i], s->log->message_ns);
}
