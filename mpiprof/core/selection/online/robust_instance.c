/* Life cycle of a key under `--switch robust` (robust_routine.c has the decisions).
 *
 * The first ten probes run the library's algorithm. After them the members create the private
 * communicator, so that communicators with fewer instances need none, and no probe includes the
 * creation. The members add their sums in the background. They wait for the result when they enter
 * the next instance, which synchronises them anyway. STAR-MPI waits at the end of the instance.
 *
 * Keys, not call sites, have a choice each, as under `auto` (key.c). Operations other than alltoall
 * and alltoallv, and inter-communicators, keep the library's algorithm.
 *
 * Threads: a key belongs to its communicator, which one thread uses at a time.
 */
#include <string.h>

#include "base/base.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/private_comm.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/online/key.h"
#include "selection/online/key_log.h"
#include "selection/online/selection.h"

/* The paper's algorithms, Section 7.1, besides the library's. */
static const char *const names[] = {"pair",
                                    "ring",
                                    "pair_one_barrier",
                                    "ring_one_barrier",
                                    "pair_light_barrier",
                                    "ring_light_barrier",
                                    "simple"};
enum { NAMES = sizeof names / sizeof *names };
_Static_assert(NAMES + 1 == ROBUST_ALGORITHMS, "the library's algorithm and those of the paper");

/* Return true if the routine treats this operation. */
bool robust_instance_applies(const struct call *c)
{
    return (c->operation == OP_alltoall || c->operation == OP_alltoallv) && !c->comm->inter;
}

/* ---- before an instance */

/* Return the reason why an algorithm of the paper is not a candidate. */
static const char *omission_of(const char *name, const struct execution *e)
{
    const struct algorithm *const a =
        catalogue_find(operation_names[e->call->operation], name, false);

    if (a == NULL)
        return "not available for alltoallv";
    if (!candidate_applies(a, e))
        return a->restrictions;
    return "it requires more memory than --scratch permits";
}

static bool is_listed(const struct selection *s, const char *name)
{
    for (int i = 1; i < s->count; i++)
        if (strcmp(s->list[i].variant.algorithm->name, name) == 0)
            return true;
    return false;
}

static void list_algorithms(struct selection *s, const struct execution *e)
{
    s->count = candidates_named(s->list, e, names, NAMES);
    s->listed = true;
    for (int i = 0; i < NAMES; i++)
        if (!is_listed(s, names[i]))
            key_log_omission(s, names[i], omission_of(names[i], e));
    if (s->count == 1)
        current_choice_conclude(s, NATIVE, "no algorithm of the paper applies");
}

static void keep_native(struct selection *s, const char *why)
{
    current_choice_abandon(s);
    current_choice_choose(s, NATIVE, why);
}

/* Wait for the sums of all members, and decide. */
static void reduction_finish(struct selection *s)
{
    struct arrivals *const w = s->arrivals;
    const struct sum_max *const status = &w->output[ROBUST_ALGORITHMS];

    pmpi.Wait(&w->requests[0], MPI_STATUS_IGNORE);
    w->stage = 0;
    if (status->most > 0)
        keep_native(s, status->most > 1 ? "memory is short"
                                        : "an operation on this communicator failed");
    else
        robust_routine_decide(s, w->output);
}

static bool is_ready(const struct candidate *c, const struct execution *e)
{
    return private_comm_ready(e->call->comm, e->call->handle) && candidate_may_run(&c->variant, e);
}

/* Return the candidate for this instance, or NULL for the library's default. All members call it
 * with the same arguments. */
const struct candidate *robust_instance_choose(struct execution *e, struct key *key)
{
    struct call *const c = e->call;
    struct selection *s = key->selection;

    c->key = key;
    if (s == NULL && key->instances == 0) {
        s = key->selection = auto_make(e, key, false);
        if (s != NULL)
            robust_routine_start(s);
    }
    if (s == NULL)
        return NULL;
    if (s->arrivals->stage > 0)
        reduction_finish(s);
    if (key->can_probe && !s->listed && !s->choice.abandoned)
        list_algorithms(s, e);
    if (s->switches) /* a key of few instances leaves no log */
        key_log_events(s);

    const int which = robust_routine_candidate(s);
    const bool runs = which != NATIVE && is_ready(&s->list[which], e);

    c->choice = (uint8_t)s->choice.state;
    c->planned = (uint8_t)which;
    c->candidate = (uint8_t)(runs ? which : NATIVE);
    return runs ? &s->list[which] : NULL;
}

/* ---- after an instance */

/* Return true if all members can run the paper's algorithms. Collective: after the first ten
 * instances, and again while no private communicator is available. */
static bool members_can_probe(const struct selection *s, struct call *c)
{
    const bool able = s != NULL && !memory_is_short();

    return private_comm_ready(c->comm, c->handle) &&
           private_comm_minimum(c->comm, c->handle, 1 + able) == 2;
}

/* Start the reduction of the members' sums. */
static void reduction_start(struct selection *s, const struct call *c)
{
    struct arrivals *const w = s->arrivals;

    memset(w->input, 0, (ROBUST_ALGORITHMS + 1) * sizeof *w->input);
    memset(w->output, 0, (ROBUST_ALGORITHMS + 1) * sizeof *w->output);
    robust_routine_sums(s, w->input);
    w->input[ROBUST_ALGORITHMS].most = memory_is_short() ? 2 : c->comm->failed;
    w->stage = 1;
    sum_max_reduce_start(w->input, w->output, ROBUST_ALGORITHMS + 1, false,
                         private_of(c->comm)->comm, &w->requests[0]);
}

/* The native probes are complete: agree on the others. */
static void probing_prepare(struct selection *s, struct key *key, struct call *c)
{
    key->can_probe = members_can_probe(s, c);
    key->is_settled = key->can_probe || !private_comm_is_postponed(c->comm);
    if (s == NULL)
        return;
    s->switches = key->is_settled;
    if (!key->is_settled) {
        current_choice_clear_events(s);
        robust_routine_start(s); /* probe the library's algorithm again */
    } else if (!key->can_probe) {
        keep_native(s, "no private communicator is available");
    }
}

void robust_instance_end(struct call *c)
{
    struct key *const key = c->key;
    struct selection *const s = key->selection;

    c->key = NULL;
    key->instances++;
    if (s != NULL) {
        s->instances++;
        if (comm_is_leader(c->comm) && c->site != NULL)
            key_log_site(s->log, c->site);
        if (!s->choice.abandoned &&
            robust_routine_note(s, c->candidate == c->planned, c->exit_ns - c->enter_ns))
            reduction_start(s, c);
    }
    if (!key->is_settled && key->instances % ROBUST_RUNS == 0)
        probing_prepare(s, key, c);
}
