/* Life cycle of a key: the instances that are recorded, and the candidate that each instance runs.
 *
 * Arrivals are recorded window by window (arrival.c) from the second instance of a key on, for the
 * selection of algorithms (`--switch auto`) or the statistics (`--record summary`). A communicator
 * with fewer instances gets no private communicator. An instance counts only if the library accepts
 * its arguments, so counting is the last action in a call.
 *
 * Threads: a key belongs to its communicator, which one thread uses at a time.
 */
#include <string.h>

#include "base/base.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "selection/online/key.h"
#include "selection/online/key_log.h"
#include "selection/online/selection.h"
#include "timing/timing.h"
#include "tracefile/tracefile.h"

enum { FIRST_WINDOW = 4, FIRST_WINDOW_AHEAD = 32 };

bool auto_chooses, auto_is_robust, auto_is_collecting;

/* ---- start */

/* Start on all ranks. `robust`: choose as robust_routine.c does. */
void auto_start(bool chooses, bool robust)
{
    /* Only under Sessions: the first communicators may have no node leader in common. */
    if (recorder.private == MPI_COMM_NULL && recorder.size > 1) {
        if (chooses && recorder.rank == 0)
            recorder_print("no algorithm is selected automatically under Sessions, which have no "
                           "common clock");
        return;
    }
    int64_t lacks = !sum_max_reduce_open(), any_lacks = lacks;

    if (recorder.private != MPI_COMM_NULL)
        pmpi.Allreduce(&lacks, &any_lacks, 1, MPI_INT64_T, MPI_MAX, recorder.private);
    if (any_lacks) {
        if (recorder.rank == 0)
            recorder_print(
                "no statistics and no selection of algorithms: MPI has no memory for them");
        return;
    }
    auto_chooses = chooses && !robust;
    auto_is_robust = chooses && robust;
    auto_is_collecting = true;
    model_correction_start();
    budget_start();
    if (chooses && recorder.rank == 0)
        selector_log_create();
    if (recorder.private != MPI_COMM_NULL)
        clock_distribute_offsets();
}

bool auto_collects(const struct call *c)
{
    return auto_is_collecting && (auto_chooses || recorder.options.totals) &&
           !(c->comm->inter && c->root != ROOT_NONE);
}

/* Return true if one of the three preceding operations synchronises all members, so that none can
 * run a window ahead. */
static bool all_have_memory(const struct communicator *k)
{
    for (int i = 1; i <= 3; i++) {
        const int before = (int)(k->history >> 8 * i & 0xff) - 1;

        if (before >= 0 && before < OP_COUNT && operation_wait_rule(before) == WAIT_ALL_FOR_ALL)
            return true;
    }
    return false;
}

/* Returns NULL if the memory reserve is exhausted too. */
struct selection *auto_make(const struct execution *e, const struct key *key, bool switches)
{
    const struct communicator *const k = e->call->comm;
    const enum wait_rule rule = operation_wait_rule(e->call->operation);
    const bool close = rule == WAIT_ALL_FOR_ALL || all_have_memory(k);
    const bool second = k->inter && !k->first_group;
    const struct membership own = {.members = k->size + k->remote_size,
                                   .member = k->rank + (second ? k->remote_size : 0),
                                   .root = e->call->root == k->rank,
                                   .second = second};
    struct selection *const s = memory_allocate(sizeof *s);
    struct arrivals *const w = arrivals_make(rule, &own, close ? FIRST_WINDOW : FIRST_WINDOW_AHEAD);
    struct key_log *const log = key_log_make(e, hash_mix(key->hash, k->identity));

    if (s == NULL || w == NULL || log == NULL) {
        arrivals_free(w);
        memory_free(log);
        memory_free(s);
        return NULL;
    }
    if (auto_chooses)
        w->position = -budget_gap(k, &e->problem, budget_least_time(e));
    s->arrivals = w;
    s->switches = switches && !(recorder.options.reproducible && e->reduces);
    s->began_ns = now_ns();
    s->problem = e->problem; /* for alpha and the sizes of the groups */
    s->count = 1;
    s->log = log;
    current_choice_start(s);
    probe_start(s);
    return s;
}

/* ---- choice for one instance */

static int find_candidate(struct selection *s, const struct variant *v)
{
    for (int i = 1; i < s->count; i++)
        if (variant_same(&s->list[i].variant, v))
            return i;
    if (s->count == MOST_LIST)
        s->count--;
    s->list[s->count] = (struct candidate){.variant = *v};
    return s->count++;
}

/* Return the pattern of the arrivals so far. `Late` only if all members wait for all. */
static enum arrival_pattern pattern_of(const struct selection *s)
{
    const int64_t worst = s->observed.worst_ns, native = s->observed.native_ns;

    if (s->arrivals->wait_rule != WAIT_ALL_FOR_ALL)
        return ARRIVALS_BALANCED;
    if (native > 0 && worst > native)
        return ARRIVALS_LATE;
    return worst < s->log->message_ns ? ARRIVALS_BALANCED : ARRIVALS_IMBALANCED;
}

/* List the candidates and predict their times. This takes too long for an instance that is being
 * recorded. The first window measures the message time while all members send. MPI_Init measured a
 * single message, which took a tenth of that on 16 emulated nodes. */
static void list_and_predict(struct selection *s, struct execution *e)
{
    struct execution loaded = *e;
    struct arrivals *const w = s->arrivals;
    const enum arrival_pattern pattern = pattern_of(s);

    w->late = pattern == ARRIVALS_LATE;
    if (e->problem.alpha < (double)s->observed.latency_ns)
        loaded.problem.alpha = (double)s->observed.latency_ns;
    s->count = candidates_list(s->list, &loaded);
    s->listed = true;
    for (int i = 1; i < s->count; i++) {
        struct candidate *const c = &s->list[i];

        c->model_ns = candidate_predicted(c, &loaded, pattern);
        c->predicted_ns = (int64_t)((double)c->model_ns *
                                    model_correction_factor(&c->variant, c->similar,
                                                            s->problem.bytes, w->member.members));
    }
}

/* Start with the choice of a plan, or of the communicator that this one duplicates. */
static void begin_with(struct selection *s, struct execution *e, const struct variant *v,
                       const char *why)
{
    struct call *const c = e->call;
    const bool native = variant_is_default(v);

    /* The members agree on the allowed candidates when they create the private communicator. */
    if (!native && private_comm_ready(c->comm, c->handle))
        list_and_predict(s, e);
    decide_from(s, native ? NATIVE : find_candidate(s, v), why);
    key_log_events(s);
}

static void begin_planned(struct selection *s, struct execution *e, const struct rule *r,
                          const struct call_properties *q)
{
    struct variant v = r->variant;

    v.algorithm = rule_algorithm(r, q);
    v.library_algorithm = rule_library_algorithm(r, q);
    if (r->by_paper && v.algorithm != NULL)
        v.label = v.algorithm->name;
    if (r->native || candidate_may_run(&v, e))
        begin_with(s, e, &v, "from the plan");
}

/* Return true if all members can run the candidate now. */
static bool is_ready(const struct candidate *c, struct execution *e)
{
    const struct variant *const v = &c->variant;

    return private_comm_ready(e->call->comm, e->call->handle) && candidate_may_run(v, e) &&
           (v->library_algorithm == NULL ||
            library_algorithm_ready(e, v->library_algorithm, v->segment));
}

/* Return the candidate for this instance, or NULL for the library's default. All members call it
 * with the same arguments. */
const struct candidate *auto_choose(struct execution *e, struct key *key, const struct rule *first,
                                    const struct call_properties *q)
{
    struct call *const c = e->call;
    struct selection *s = key->selection;

    c->key = key;
    if (s == NULL) {
        const bool inherits =
            first == NULL && !variant_is_default(&key->inherited) &&
            (key->instances + 1) * key->inherited_gain_ns >= key->inherited_price_ns;

        if (first == NULL && !inherits && key->instances < 1)
            return NULL;
        s = key->selection = auto_make(e, key, true);
        if (s == NULL)
            return NULL;
        if (first != NULL)
            begin_planned(s, e, first, q);
        else if (inherits && candidate_may_run(&key->inherited, e))
            begin_with(s, e, &key->inherited, "inherited from the parent communicator");
    }
    if (!s->listed && s->observed.latency_ns > 0 && s->arrivals->position >= s->arrivals->length)
        list_and_predict(s, e);
    c->planned = (uint8_t)probe_candidate_at(s, s->arrivals->position);
    const bool probes = c->planned != NOBODY;
    const int which = probes ? c->planned : s->choice.current;
    const bool runs = which != NATIVE && is_ready(&s->list[which], e);

    c->candidate = (uint8_t)(runs ? which : NATIVE);
    c->choice = (uint8_t)(probes                            ? STATE_PROBE
                          : s->choice.state == STATE_CHOSEN ? STATE_CHOSEN
                                                            : STATE_OBSERVE);
    return runs ? &s->list[which] : NULL;
}

/* Record an instance that runs natively, at its end. */
void auto_observe(struct execution *e, struct key *key)
{
    e->call->key = key;
    e->call->planned = NOBODY;
    if (key->selection == NULL && key->instances >= 1)
        key->selection = auto_make(e, key, false);
}

/* ---- after an instance */

static void begin_window(struct selection *s, struct call *c)
{
    struct arrivals *const w = s->arrivals;
    int64_t *const x = w->extras;

    if (!private_comm_ready(c->comm, c->handle)) {
        if (private_comm_is_postponed(c->comm))
            return; /* a private communicator may become available later */
        current_choice_abandon(s);
        return;
    }
    memset(x, 0, sizeof w->extras);
    x[EXTRA_FAILED] = memory_is_short() ? 2 : c->comm->failed;
    x[EXTRA_BUDGET] = -budget_left();
    x[EXTRA_CLOCK] = clock_error_bound();
    x[EXTRA_STALE] = clock_is_stale();
    x[EXTRA_WALL] = now_ns() - s->began_ns;
    x[EXTRA_PRIVATE] = -private_of(c->comm)->creation_ns;
    x[EXTRA_MESSAGE] = -private_of(c->comm)->message_ns;
    for (int i = 1; i < s->count; i++)
        w->predicted[i] = s->list[i].predicted_ns;
    arrivals_begin(w, private_of(c->comm)->comm);
    probe_assign(s, 0);
}

/* Create the resources of planned library algorithms, so that their creation does not count as time
 * of a probe. */
static void prepare_library_algorithms(struct selection *s, struct communicator *k)
{
    for (int i = 0; i < LONGEST_WINDOW; i++) {
        const int next = s->probing.next[i];
        const struct variant *const v = next != NOBODY ? &s->list[next].variant : NULL;

        if (v != NULL && v->library_algorithm != NULL &&
            !library_algorithm_prepare(k, v->library_algorithm, v->segment))
            probe_refuse(s, next);
    }
}

static void window_evaluate(struct selection *s, const struct call *c)
{
    const struct arrivals *const w = s->arrivals;

    statistics_add_window(s);
    /* All members take part here, and this operation synchronises them in any case. No second
     * thread can enter, because MPI forbids concurrent collectives on MPI_COMM_WORLD. */
    if (w->extras[EXTRA_STALE] > 0 && w->wait_rule == WAIT_ALL_FOR_ALL &&
        c->handle == MPI_COMM_WORLD && recorder.private != MPI_COMM_NULL) {
        clock_synchronise("live", INT64_MAX);
        clock_distribute_offsets();
    }
    decide(s);
    prepare_library_algorithms(s, c->comm);
    if (current_choice_has(s, NEWS_TRIALS))
        model_correction_note(s);
    key_log_events(s);
}

void auto_end(struct call *c)
{
    struct key *const key = c->key;
    struct selection *const s = key->selection;

    c->key = NULL;
    key->instances++;
    budget_add_time(c->exit_ns - c->enter_ns);
    if (s == NULL)
        return;
    struct arrivals *const w = s->arrivals;

    s->instances++;
    if (comm_is_leader(c->comm) && c->site != NULL)
        key_log_site(s->log, c->site);
    if (s->choice.abandoned)
        return;
    if (auto_chooses && s->instances == 1 && w->wait_rule == WAIT_ALL_FOR_ALL) {
        /* The last member to arrive did not wait, so the minimum is better than the estimate. */
        const int64_t least = private_comm_minimum(c->comm, c->handle, c->exit_ns - c->enter_ns);

        if (least > 0)
            w->position = -budget_gap(c->comm, &s->problem, (double)least);
    }
    arrivals_note(w, &(struct moment){.arrival = c->enter_ns,
                                      .exit = c->exit_ns,
                                      .shape_group = c->shape_group,
                                      .candidate = c->candidate,
                                      .planned = c->planned});
    const bool evaluated = arrivals_step(w, private_of(c->comm)->comm);

    if (evaluated)
        window_evaluate(s, c);
    if (w->stage > 0 || s->choice.abandoned || w->position < w->length ||
        (!s->listed && s->switches && s->observed.latency_ns > 0))
        return;
    const int first = w->length;

    if (evaluated && probe_waits(s) && arrivals_extend(w))
        probe_assign(s, first);
    else
        begin_window(s, c);
}
