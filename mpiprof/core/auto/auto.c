/* A key's life: which of its instances are watched, and what each runs on.
 *
 * From its second instance on a key's arrivals are collected window by window (arrival.c), where
 * they are wanted: to choose an algorithm (`--switch auto`), or as statistics (`--record summary`).
 * A communicator with fewer instances gets no private communicator and is left alone. An instance
 * counts when the library has accepted its arguments; that is known afterwards, so counting is the
 * last thing that happens in a call.
 *
 * Threads: a key belongs to its communicator.
 */
#include <string.h>

#include "auto/arrival.h"
#include "auto/auto.h"
#include "auto/budget.h"
#include "auto/candidates.h"
#include "auto/decide.h"
#include "auto/explain.h"
#include "auto/hold.h"
#include "auto/learned.h"
#include "auto/pairs.h"
#include "auto/probe.h"
#include "auto/selection.h"
#include "auto/statistics.h"
#include "base/common.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "choose/key.h"
#include "choose/rules.h"
#include "machine/clock.h"
#include "record/call.h"
#include "record/comm.h"
#include "run/execution.h"
#include "run/forced.h"
#include "run/private.h"
#include "run/variant.h"
#include "schedule/algorithms/catalogue.h"

enum { FIRST_WINDOW = 4, FIRST_WINDOW_AHEAD = 32 };

bool auto_chooses, auto_watching;

/* ---- start */

/* On all ranks. */
static bool can_reduce(void)
{
    int64_t lacks = !pairs_open(), any = lacks;

    if (recorder.private != MPI_COMM_NULL)
        pmpi.Allreduce(&lacks, &any, 1, MPI_INT64_T, MPI_MAX, recorder.private);
    return !any;
}

void auto_start(bool chooses)
{
    /* Sessions alone: their first communicators may have no node leader in common. */
    if (recorder.private == MPI_COMM_NULL && recorder.size > 1) {
        if (chooses && recorder.rank == 0)
            recorder_say(
                "nothing is chosen automatically under Sessions: they have no common clock");
        return;
    }
    if (!can_reduce()) {
        if (recorder.rank == 0)
            recorder_say("no statistics and no choice of algorithms: MPI has no memory for them");
        return;
    }
    auto_chooses = chooses;
    auto_watching = true;
    learned_open();
    budget_open();
    if (recorder.private != MPI_COMM_NULL)
        clock_share();
}

/* Whether calls of this kind are looked at. */
bool auto_takes(const struct call *c)
{
    return auto_watching && (auto_chooses || recorder.options.totals) &&
           !(c->comm->inter && c->root != ROOT_NONE);
}

/* Whether one of the operations before this one keeps all members together: then none runs a
 * window ahead of another. */
static bool kept_together(const struct communicator *k)
{
    for (int i = 1; i <= 3; i++) {
        const int before = (int)(k->history >> 8 * i & 0xff) - 1;

        if (before >= 0 && before < OP_COUNT && operation_semantics(before) == SYNCHRONISES)
            return true;
    }
    return false;
}

/* NULL: not even the reserve has memory. */
static struct selection *selection_make(const struct execution *e, const struct key *key,
                                        bool switches)
{
    const struct communicator *const k = e->call->comm;
    const enum semantics semantics = operation_semantics(e->call->operation);
    const bool close = semantics == SYNCHRONISES || kept_together(k);
    const bool first = !k->inter || k->first_group;
    const struct membership own = {.members = k->size + k->remote_size,
                                   .member = k->rank + (first ? 0 : k->remote_size),
                                   .root = e->call->root == k->rank,
                                   .second = !first};
    struct arrivals *const w =
        arrivals_make(semantics, &own, close ? FIRST_WINDOW : FIRST_WINDOW_AHEAD);
    struct selection *const s = w != NULL ? memory_get(sizeof *s) : NULL;

    if (s == NULL) {
        arrivals_free(w);
        return NULL;
    }
    s->arrivals = w;
    if (auto_chooses)
        s->arrivals->position = -budget_gap(k, &e->problem, budget_least_time(e));
    s->problem = e->problem; /* for alpha and the sizes of the groups */
    s->began_ns = now_ns();
    s->told = explain_key(e, hash_mix(key->hash, k->identity));
    if (s->told == NULL) {
        arrivals_free(w);
        memory_free(s);
        return NULL;
    }
    hold_start(&s->hold);
    s->switches = switches && !(recorder.options.reproducible && e->reduces);
    s->count = 1;
    probe_start(s);
    return s;
}

/* ---- what an instance runs on */

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

/* What may run, with its predictions: not in an instance that is watched, as it takes a while. What
 * a message takes while all members send is told by the first window; MPI_Init has sent just one,
 * which on 16 emulated nodes took a tenth of that. */
static void list_and_predict(struct selection *s, struct execution *e)
{
    struct execution loaded = *e;
    struct arrivals *const w = s->arrivals;

    w->late = w->semantics == SYNCHRONISES && s->observed.native_ns > 0 &&
              s->observed.worst_ns > s->observed.native_ns;
    if (e->problem.alpha < (double)s->observed.latency_ns)
        loaded.problem.alpha = (double)s->observed.latency_ns;
    s->count = candidates_list(s->list, &loaded);
    s->listed = true;
    for (int i = 1; i < s->count; i++) {
        struct candidate *const c = &s->list[i];

        c->model_ns = candidate_predicted(c, &loaded, w->late);
        c->predicted_ns =
            (int64_t)((double)c->model_ns *
                      learned_factor(&c->variant, c->like, s->problem.bytes, w->own.members));
    }
}

/* Begins with what is known: from a plan, or from the communicator that this one duplicates. */
static void begin_with(struct selection *s, struct execution *e, const struct variant *v,
                       const char *why)
{
    struct call *const c = e->call;
    const bool native = v->algorithm == NULL && v->own == NULL;

    /* What may run is agreed with the private communicator. */
    if (!native && private_ready(c->comm, c->handle))
        list_and_predict(s, e);
    decide_from(s, native ? NATIVE : find_candidate(s, v), why);
    explain_events(s);
}

static bool inherited_pays(const struct key *key)
{
    return (key->inherited.algorithm != NULL || key->inherited.own != NULL) &&
           (key->instances + 1) * key->inherited_gain_ns >= key->inherited_price_ns;
}

/* One of the library's own: whether all members can name it to the library. */
static bool told_if_own(struct execution *e, const struct variant *v)
{
    return v->own == NULL || forced_ready(e, v->own, v->segment);
}

/* Which candidate this instance runs on; NULL: the library's own. Called by all members, alike. */
const struct candidate *auto_choose(struct execution *e, struct key *key, const struct rule *first,
                                    const struct asked *q)
{
    struct call *const c = e->call;
    struct selection *s = key->selection;
    const bool planned = first != NULL && s == NULL;
    const bool inherits = !planned && s == NULL && inherited_pays(key);

    c->key = key;
    if (s == NULL && !planned && !inherits && key->instances < 1)
        return NULL;
    if (s == NULL) {
        s = key->selection = selection_make(e, key, true);
        if (s == NULL)
            return NULL;
        struct variant v = planned ? first->variant : key->inherited;

        if (planned) {
            v.algorithm = rule_algorithm(first, q);
            v.own = rule_own(first, q);
        }
        if (planned && first->by_paper && v.algorithm != NULL)
            v.label = v.algorithm->name;
        const bool fits = candidate_may_run(&v, e);

        if (planned && (first->native || fits))
            begin_with(s, e, &v, "from the plan");
        else if (inherits && fits)
            begin_with(s, e, &v, "from the communicator that this one duplicates");
    }
    if (!s->listed && s->observed.latency_ns > 0 && arrivals_full(s->arrivals))
        list_and_predict(s, e);
    const int planned_now = probe_at(s, s->arrivals->position);
    int which = planned_now != NOBODY ? planned_now : s->hold.current;

    if (which != NATIVE &&
        (!private_ready(c->comm, c->handle) || !candidate_may_run(&s->list[which].variant, e) ||
         !told_if_own(e, &s->list[which].variant)))
        which = NATIVE;
    c->candidate = (uint8_t)which;
    c->planned = (uint8_t)planned_now;
    c->choice = (uint8_t)(planned_now != NOBODY         ? STATE_PROBE
                          : s->hold.state == STATE_HOLD ? STATE_HOLD
                                                        : STATE_OBSERVE);
    return which != NATIVE ? &s->list[which] : NULL;
}

/* An instance that is not switched, but whose statistics are wanted; at its end. */
void auto_watch(struct execution *e, struct key *key)
{
    e->call->key = key;
    e->call->planned = NOBODY;
    if (key->selection == NULL && key->instances >= 1)
        key->selection = selection_make(e, key, false);
}

/* ---- after an instance */

static void begin_window(struct selection *s, struct call *c)
{
    struct arrivals *const w = s->arrivals;
    int64_t *const x = w->extras;

    if (!private_ready(c->comm, c->handle)) {
        if (private_may_come(c->comm))
            return; /* there may be room for one later */
        hold_leave(&s->hold);
        return;
    }
    memset(x, 0, sizeof w->extras);
    x[EXTRA_FAILED] = memory_short() ? 2 : c->comm->failed;
    x[EXTRA_BUDGET] = -budget_left();
    x[EXTRA_CLOCK] = clock_bound();
    x[EXTRA_STALE] = clock_is_stale();
    x[EXTRA_WALL] = now_ns() - s->began_ns;
    x[EXTRA_PRIVATE] = -c->comm->private_ns;
    x[EXTRA_MESSAGE] = -c->comm->message_ns;
    for (int i = 1; i < s->count; i++)
        w->predicted[i] = s->list[i].predicted_ns;
    arrivals_begin(w, c->comm->private);
    probe_take(s, 0);
}

/* What the library's own need that are planned next: outside of the time that they are given. */
static void prepare_own(struct selection *s, struct communicator *k)
{
    for (int i = 0; i < LONGEST_WINDOW; i++) {
        const int next = s->probing.next[i];
        const struct variant *const v = next != NOBODY ? &s->list[next].variant : NULL;

        if (v != NULL && v->own != NULL && !forced_prepare(k, v->own, v->segment))
            probe_refuse(s, next);
    }
}

static void results(struct selection *s, const struct call *c)
{
    const struct arrivals *const w = s->arrivals;

    statistics_keep(s, c->comm);
    /* All members are here, in an operation that keeps them together in any case; and no two
     * threads at once, as MPI lets them not call on MPI_COMM_WORLD together. */
    if (w->extras[EXTRA_STALE] > 0 && w->semantics == SYNCHRONISES && c->handle == MPI_COMM_WORLD &&
        recorder.private != MPI_COMM_NULL) {
        clock_synchronise("live", INT64_MAX);
        clock_share();
    }
    decide(s);
    prepare_own(s, c->comm);
    if (hold_has(&s->hold, NEWS_TRIALS))
        learned_note(s);
    explain_events(s);
}

/* The last thing in a call whose statistics are wanted. */
void auto_end(struct call *c)
{
    struct key *const key = c->key;
    struct selection *const s = key->selection;

    c->key = NULL;
    if (c->refused)
        return;
    key->instances++;
    budget_spend(c->exit_ns - c->enter_ns);
    if (s == NULL)
        return;
    s->instances++;
    if (comm_leads(c->comm) && c->site != NULL)
        explain_site(s->told, c->site);
    if (s->hold.left)
        return;
    if (auto_chooses && s->instances == 1 && s->arrivals->semantics == SYNCHRONISES) {
        /* Measured is better than worked out; the last to arrive has not waited. */
        const int64_t least = private_least(c->comm, c->handle, c->exit_ns - c->enter_ns);

        if (least > 0)
            s->arrivals->position = -budget_gap(c->comm, &s->problem, (double)least);
    }
    const struct moment m = {.arrival = c->enter_ns,
                             .exit = c->exit_ns,
                             .signatures = c->signatures,
                             .candidate = c->candidate,
                             .planned = c->planned};

    arrivals_note(s->arrivals, &m);
    const bool told = arrivals_step(s->arrivals, c->comm->private);

    if (told)
        results(s, c);
    if (s->arrivals->stage > 0 || s->hold.left || !arrivals_full(s->arrivals) ||
        (!s->listed && s->switches && s->observed.latency_ns > 0))
        return;
    const int first = s->arrivals->length;

    if (told && probe_waits(s) && arrivals_extend(s->arrivals))
        probe_take(s, first);
    else
        begin_window(s, c);
}
