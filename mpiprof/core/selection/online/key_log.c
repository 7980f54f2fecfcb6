/* Log of a key: the facts about its probing and choices, in selection.jsonl of the trace.
 *
 *   {"kind": "key", "key": "0f..", "communicator": "8c..", "operation": "alltoall", "bytes": ..
 *   {"kind": "phase", "key": "0f..", "phase": 1, "instance": 12, "why": "start", ..
 *   {"kind": "trial", "key": "0f..", "phase": 1, "algorithm": "ring", "instances": 5, ..
 *   {"kind": "omitted", "key": "0f..", "phase": 1, "algorithm": "pair", "why": .., "excess": 1.3}
 *   {"kind": "choice", "key": "0f..", "phase": 1, "instance": 40, "algorithm": "ring", "why": ..
 *   {"kind": "end", "key": "0f..", "instances": 300, "probes": 38, "algorithm": "ring", ..
 *
 * Each row is appended as soon as its facts are known, so nothing is collected in MPI_Finalize.
 * `report` and `tune --found` read the rows. Only the member that leads a communicator writes; all
 * members call these functions.
 */
#include <stdatomic.h>

#include "base/base.h"
#include "base/operation.h"
#include "base/recorder.h"
#include "executor/execution.h"
#include "executor/private_comm.h"
#include "selection/online/key_log.h"
#include "timing/timing.h"
#include "tracefile/tracefile.h"

static const char *name_of(const struct candidate *c)
{
    return c->variant.label != NULL ? c->variant.label : "native";
}

static struct text row_begin(const struct selection *s, const char *kind)
{
    struct text t = {0};

    text_add(&t, "{\"kind\": \"%s\", \"key\": \"%016llx\"", kind, (unsigned long long)s->log->key);
    return t;
}

static void row_end(struct text *t)
{
    text_add(t, "}\n");
    checksum_close(t);
    selector_log_add(t);
    text_free(t);
}

/* Return true if all members know the sizes by rank. */
static bool has_counts(const struct execution *e)
{
    return e->problem.counts != NULL && problem_is_known(e);
}

/* Return the bytes of all members, or of this member if sizes are not known to all. */
static int64_t bytes_of(const struct execution *e)
{
    return has_counts(e) ? problem_sum(&e->problem) : e->problem.bytes;
}

/* Return the bytes of the message of which the report uses the time T. */
static int64_t message_bytes(const struct execution *e)
{
    const bool is_share = has_counts(e) && e->call->operation != OP_reduce_scatter;

    return is_share ? bytes_of(e) / e->problem.size : bytes_of(e);
}

void key_log_site(struct key_log *l, const struct site *site)
{
    for (int i = 0; i < l->site_count; i++)
        if (l->sites[i] == site)
            return;
    if (l->site_count < (int)(sizeof l->sites / sizeof *l->sites)) {
        l->sites[l->site_count++] = site;
        l->written = false; /* the key is written again, with all its call sites */
    }
}

/* Returns NULL if the memory reserve is exhausted too. */
struct key_log *key_log_make(const struct execution *e, uint64_t key)
{
    struct key_log *const l = memory_allocate(sizeof *l);

    if (l == NULL)
        return NULL;
    l->key = key;
    l->comm = e->call->comm;
    l->operation = e->call->operation;
    l->root = e->call->root;
    l->bytes = bytes_of(e);
    l->message_ns = (int64_t)(e->problem.alpha + machine_message_ns(private_comm_link(l->comm),
                                                                    (double)message_bytes(e)));
    if (comm_is_leader(l->comm) && e->call->site != NULL)
        key_log_site(l, e->call->site);
    return l;
}

static void write_key(struct selection *s)
{
    struct key_log *const l = s->log;

    if (l->written)
        return;
    l->written = true;
    struct text t = row_begin(s, "key");

    text_add(&t, ", \"communicator\": \"%016llx\", \"operation\": \"%s\", \"bytes\": %lld, ",
             (unsigned long long)l->comm->identity, operation_names[l->operation],
             (long long)l->bytes);
    text_add(&t, l->root == ROOT_NONE ? "\"root\": null" : "\"root\": %d", l->root);
    text_add(&t, ", \"size\": %d, \"mode\": \"%s\", \"sites\": [",
             l->comm->size + l->comm->remote_size, s->is_robust ? "robust" : "auto");
    for (int i = 0; i < l->site_count; i++)
        text_add(&t, "%s%s", i > 0 ? ", " : "",
                 l->sites[i]->frame != NULL ? l->sites[i]->frame : "null");
    text_add(&t, "]");
    row_end(&t);
}

static void write_phase(const struct selection *s, const struct event *e)
{
    struct text t = row_begin(s, "phase");

    text_add(&t, ", \"phase\": %d, \"instance\": %lld, \"why\": \"%s\", \"imbalance_ns\": %lld, ",
             s->phases.number, (long long)e->instance, e->why, (long long)s->observed.worst_ns);
    text_add(&t, "\"score_ns\": %lld, \"window\": %d",
             (long long)rank_test_median(&s->list[e->current]),
             s->is_robust ? ROBUST_RUNS : s->arrivals->length);
    row_end(&t);
}

static void write_trials(const struct selection *s)
{
    for (int i = 0; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];

        if (c->tried == 0)
            continue;
        struct text t = row_begin(s, "trial");

        text_add(&t, ", \"phase\": %d, \"algorithm\": \"%s\", \"instances\": %d, ",
                 s->phases.number, name_of(c), c->tried);
        text_add(&t, "\"score_ns\": %lld, \"predicted_ns\": %lld", (long long)rank_test_known(c),
                 (long long)c->predicted_ns);
        if (c->seen > 2) /* enough scores to estimate the noise */
            text_add(&t, ", \"error_ns\": %lld", (long long)rank_test_spread(c));
        row_end(&t);
    }
}

/* `excess`: how many times the candidate's optimistic time exceeds the best time; 0 for none. */
static void write_omission(const struct selection *s, const char *algorithm, const char *why,
                           double excess)
{
    struct text t = row_begin(s, "omitted");

    text_add(&t, ", \"phase\": %d, \"algorithm\": \"%s\", \"why\": \"%s\"", s->phases.number,
             algorithm, why);
    if (excess > 0)
        text_add(&t, ", \"excess\": %.3g", excess);
    row_end(&t);
}

/* Return true if no variant of this candidate's algorithm ran, and this variant is the best one. */
static bool represents_omitted(const struct selection *s, int i)
{
    const struct variant *const v = &s->list[i].variant;
    const int64_t mine = candidate_set_estimate(s, i);

    for (int j = 1; j < s->count; j++) {
        const struct variant *const w = &s->list[j].variant;
        const int64_t other = candidate_set_estimate(s, j);

        if (w->algorithm == v->algorithm && w->library_algorithm == v->library_algorithm &&
            (s->list[j].tried > 0 || other < mine || (other == mine && j < i)))
            return false;
    }
    return true;
}

/* Return the reason why a candidate that the model does not exclude did not run. */
static const char *omission_reason(const struct selection *s, int i)
{
    if (s->probing.probes >= s->probing.limit)
        return "all probes of the phase were used";
    if (s->probing.short_of_budget)
        return "a probe could lose more time than the budget allows";
    if (s->list[i].variant.library_algorithm != NULL)
        return "few algorithms of the library are probed, each after its equivalent";
    return "the phase ended before its probe";
}

/* Write the algorithms that `auto` did not run. `robust` names its own before it probes. */
static void write_omissions(const struct selection *s)
{
    for (int i = 1; i < s->count && !s->is_robust; i++) {
        const double excess = candidate_set_excess(s, i);

        if (!represents_omitted(s, i))
            continue;
        if (excess > 1)
            write_omission(s, name_of(&s->list[i]), "the model excludes it", excess);
        else
            write_omission(s, name_of(&s->list[i]), omission_reason(s, i), 0);
    }
}

/* Write that an algorithm is no candidate. */
void key_log_omission(struct selection *s, const char *algorithm, const char *why)
{
    if (!comm_is_leader(s->log->comm))
        return;
    write_key(s);
    write_omission(s, algorithm, why, 0);
}

static void write_choice(const struct selection *s, const struct event *e)
{
    static atomic_bool warned;
    struct text t = row_begin(s, "choice");

    text_add(&t, ", \"phase\": %d, \"instance\": %lld, \"algorithm\": \"%s\", \"why\": \"%s\"",
             s->phases.number, (long long)e->instance, name_of(&s->list[e->current]), e->why);
    row_end(&t);
    if (e->current == NATIVE || !operation_reduces(s->log->operation) || e->state != STATE_CHOSEN)
        return;
    if (!atomic_exchange(&warned, true))
        recorder_print("%s now runs on %s, so floating-point results may round differently: "
                       "--reproducible keeps the library's algorithm for reductions",
                       operation_names[s->log->operation], name_of(&s->list[e->current]));
}

/* Write the events since the last call, on the communicator's leader. */
void key_log_events(struct selection *s)
{
    for (int i = 0; comm_is_leader(s->log->comm) && i < s->choice.event_count; i++) {
        const struct event *const e = &s->choice.events[i];

        write_key(s);
        switch (e->what) {
        case NEWS_PHASE: write_phase(s, e); break;
        case NEWS_TRIALS:
            write_trials(s);
            write_omissions(s);
            break;
        case NEWS_CHOICE: write_choice(s, e); break;
        }
    }
    current_choice_clear_events(s);
}

/* Write the end of the key, and free the log. */
void key_log_end(struct selection *s)
{
    if (comm_is_leader(s->log->comm) && s->switches &&
        (s->phases.number > 0 || s->choice.abandoned)) {
        write_key(s);
        if (s->choice.state == STATE_PROBE) {
            write_trials(s);
            write_omissions(s);
        }
        struct text t = row_begin(s, "end");

        text_add(&t, ", \"instances\": %lld, \"probes\": %d, ", (long long)s->instances,
                 s->probing.ran);
        text_add(&t, "\"algorithm\": \"%s\", \"saved_ns\": %lld",
                 name_of(&s->list[s->choice.current]), (long long)s->observed.saved_ns);
        row_end(&t);
    }
    memory_free(s->log);
}
