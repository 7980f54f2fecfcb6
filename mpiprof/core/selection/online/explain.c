/* Report of probing and choices. It goes to selection.jsonl of the trace while the program runs. At
 * the end it is printed (`--explain`) and written as a plan (`--plan-out`).
 *
 *   {"kind": "key", "key": "0f..", "communicator": "8c..", "operation": "alltoall", "bytes": ..
 *   {"kind": "phase", "key": "0f..", "phase": 1, "instance": 12, "why": "start", ..
 *   {"kind": "trial", "key": "0f..", "phase": 1, "algorithm": "ring", "instances": 5, ..
 *   {"kind": "choice", "key": "0f..", "phase": 1, "instance": 40, "algorithm": "ring", "why": ..
 *   {"kind": "end", "key": "0f..", "instances": 300, "probes": 38, "algorithm": "ring", ..
 *
 * Only the member that leads a communicator writes; all members call these functions. The text for
 * the end is protected by recorder.lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/operation.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "base/text.h"
#include "base/tree.h"
#include "callsite/site.h"
#include "callsite/site_names.h"
#include "executor/execution.h"
#include "executor/problem.h"
#include "record/comm.h"
#include "schedule/schedule.h"
#include "selection/online/candidates.h"
#include "selection/online/explain.h"
#include "selection/online/plan.h"
#include "selection/online/rank_test.h"
#include "selection/online/report_info.h"
#include "selection/online/selection.h"
#include "tracefile/checksum.h"
#include "tracefile/selector_log.h"

static struct text words; /* text for the end; both variables are protected by recorder.lock */
static int reductions_switched;
enum { MOST_WORDS = 1 << 20 };

static const char *name_of(const struct candidate *c)
{
    return c->variant.label != NULL ? c->variant.label : "native";
}

static bool speaks(const struct selection *s)
{
    return comm_leads(s->told->comm);
}

static struct text line_begin(const struct selection *s, const char *kind)
{
    struct text t = {0};

    text_add(&t, "{\"kind\": \"%s\", \"key\": \"%016llx\"", kind, (unsigned long long)s->told->key);
    return t;
}

static void line_end(struct text *t)
{
    text_add(t, "}\n");
    checksum_close(t);
    selector_log_add(t);
    text_free(t);
}

/* ---- while the program runs */

/* Return the bytes of all members, or of this member if sizes are not known to all. */
static int64_t bytes_of(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    int64_t total = p->bytes;

    for (int i = 0; problem_is_known(e) && p->counts != NULL && i < p->size; i++)
        total += p->counts[i];
    return total;
}

/* Return the bytes of the message of which the report uses the time T. */
static int64_t message_bytes(const struct execution *e)
{
    const struct problem *const p = &e->problem;

    if (p->counts == NULL || !problem_is_known(e))
        return p->bytes;
    return e->call->operation == OP_reduce_scatter ? bytes_of(e) : bytes_of(e) / p->size;
}

void explain_site(struct report_info *t, const struct site *site)
{
    for (int i = 0; i < t->site_count; i++)
        if (t->sites[i] == site)
            return;
    if (t->site_count < (int)(sizeof t->sites / sizeof *t->sites)) {
        t->sites[t->site_count++] = site;
        t->written = false; /* the key is written again, with all its call sites */
    }
}

/* Returns NULL if the memory reserve is exhausted too. */
struct report_info *explain_key(const struct execution *e, uint64_t key)
{
    struct report_info *const t = memory_get(sizeof *t);

    if (t == NULL)
        return NULL;
    t->key = key;
    t->comm = e->call->comm;
    t->operation = e->call->operation;
    t->root = e->call->root;
    t->bytes = bytes_of(e);
    t->known = problem_is_known(e);
    t->message_ns = (int64_t)(e->problem.alpha + e->problem.beta * (double)message_bytes(e));
    if (comm_leads(t->comm) && e->call->site != NULL)
        explain_site(t, e->call->site);
    return t;
}

static void write_key(struct selection *s)
{
    struct text t;

    if (s->told->written || !speaks(s))
        return;
    s->told->written = true;
    t = line_begin(s, "key");
    text_add(&t, ", \"communicator\": \"%016llx\", \"operation\": \"%s\", \"bytes\": %lld, ",
             (unsigned long long)s->told->comm->identity, operation_names[s->told->operation],
             (long long)s->told->bytes);
    text_add(&t, s->told->root == ROOT_NONE ? "\"root\": null" : "\"root\": %d", s->told->root);
    text_add(&t, ", \"size\": %d, \"sites\": [", s->told->comm->size + s->told->comm->remote_size);
    for (int i = 0; i < s->told->site_count; i++) {
        text_add(&t, i > 0 ? ", " : "");
        text_json(&t, site_name_text(s->told->sites[i]), -1);
    }
    /* frames that allow a later lookup of the source line */
    text_add(&t, "], \"frames\": [");
    for (int i = 0; i < s->told->site_count; i++) {
        const char *const frame = site_name_frame(s->told->sites[i]);

        text_add(&t, "%s%s", i > 0 ? ", " : "", frame != NULL ? frame : "null");
    }
    text_add(&t, "]");
    line_end(&t);
}

static void tell_phase(struct selection *s, const struct event *e)
{
    struct text t;

    write_key(s);
    t = line_begin(s, "phase");
    text_add(&t, ", \"phase\": %d, \"instance\": %lld, \"why\": \"%s\", \"imbalance_ns\": %lld, ",
             s->phases.number, (long long)s->instances, e->why, (long long)s->observed.worst_ns);
    text_add(&t, "\"score_ns\": %lld, \"window\": %d",
             (long long)rank_test_median(&s->list[e->current]), s->arrivals->length);
    line_end(&t);
    text_add(&s->told->history, "    instance %lld: probing begins (%s)\n", (long long)s->instances,
             e->why);
}

/* Return true if there are enough scores to estimate the noise. */
static bool has_spread(const struct candidate *c)
{
    return c->seen > 2;
}

static void tell_trials(struct selection *s)
{
    write_key(s);
    for (int i = 0; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];
        struct text t;

        if (c->tried == 0)
            continue;
        t = line_begin(s, "trial");
        text_add(&t, ", \"phase\": %d, \"algorithm\": \"%s\", \"instances\": %d, ",
                 s->phases.number, name_of(c), c->tried);
        text_add(&t, "\"score_ns\": %lld, \"predicted_ns\": %lld", (long long)rank_test_known(c),
                 (long long)c->predicted_ns);
        if (has_spread(c))
            text_add(&t, ", \"error_ns\": %lld", (long long)rank_test_spread(c));
        line_end(&t);
    }
}

static void tell_choice(struct selection *s, const struct event *e)
{
    struct text t;

    write_key(s);
    t = line_begin(s, "choice");
    text_add(&t, ", \"phase\": %d, \"instance\": %lld, \"algorithm\": \"%s\", \"why\": \"%s\"",
             s->phases.number, (long long)s->instances, name_of(&s->list[e->current]), e->why);
    line_end(&t);
    text_add(&s->told->history, "    instance %lld: %s (%s)\n", (long long)s->instances,
             name_of(&s->list[e->current]), e->why);
    if (e->current == NATIVE || !operation_reduces(s->told->operation) || e->state != STATE_HOLD)
        return;
    recorder_lock();
    const bool first = reductions_switched++ == 0;
    recorder_unlock();
    if (first)
        recorder_say("%s now runs on %s: floating-point results may round differently; "
                     "--reproducible leaves reductions to the library",
                     operation_names[s->told->operation], name_of(&s->list[e->current]));
}

void explain_events(struct selection *s)
{
    for (int i = 0; speaks(s) && i < s->hold.event_count; i++) {
        const struct event *const e = &s->hold.events[i];

        switch (e->what) {
        case NEWS_PHASE: tell_phase(s, e); break;
        case NEWS_TRIALS: tell_trials(s); break;
        case NEWS_CHOICE: tell_choice(s, e); break;
        }
    }
    current_choice_told(&s->hold);
}

/* ---- at the end */

static void put_score(const struct candidate *c)
{
    text_add(&words, "    %-32s %8.1f us ", name_of(c), (double)rank_test_known(c) / 1e3);
    if (has_spread(c))
        text_add(&words, "+- %.1f ", (double)rank_test_spread(c) / 1e3);
    text_add(&words, "in %d instance%s\n", c->tried, c->tried == 1 ? "" : "s");
}

static void put_words(const struct selection *s)
{
    text_add(&words, "%s", operation_names[s->told->operation]);
    if (s->told->known)
        text_add(&words, " of %lld bytes", (long long)s->told->bytes);
    for (int i = 0; i < s->told->site_count; i++) {
        bool again = false; /* a compiler may generate several calls for one source line */

        for (int j = 0; j < i; j++)
            again |=
                strcmp(site_name_text(s->told->sites[i]), site_name_text(s->told->sites[j])) == 0;
        if (!again)
            text_add(&words, "%s%s", i == 0 ? " at " : ", ", site_name_text(s->told->sites[i]));
    }
    text_add(&words, ": %s; %lld instances, %d of them probes; %s %.1f ms a rank\n",
             name_of(&s->list[s->hold.current]), (long long)s->instances, s->probing.ran,
             s->observed.saved_ns < 0 ? "lost" : "saved",
             (double)llabs(s->observed.saved_ns) / 1e6);
    text_add(&words, "%s", s->told->history.bytes != NULL ? s->told->history.bytes : "");
    if (s->hold.state == STATE_PROBE)
        text_add(&words, "    instance %lld: the end, and probing is not over\n",
                 (long long)s->instances);
    for (int i = 0; i < s->count; i++)
        if (s->list[i].tried > 0)
            put_score(&s->list[i]);
}

static void tell_end(struct selection *s)
{
    struct text t;

    write_key(s);
    if (s->hold.state == STATE_PROBE)
        tell_trials(s);
    t = line_begin(s, "end");
    text_add(&t, ", \"instances\": %lld, \"probes\": %d, \"algorithm\": \"%s\", \"saved_ns\": %lld",
             (long long)s->instances, s->probing.ran, name_of(&s->list[s->hold.current]),
             (long long)s->observed.saved_ns);
    line_end(&t);
    if (recorder.options.explains || recorder.options.plan_out != NULL)
        site_name_resolve();
    recorder_lock();
    if (recorder.options.explains && words.length < MOST_WORDS)
        put_words(s);
    /* During a later phase, the choice of an earlier phase still runs between the probes. */
    if (s->hold.current != NATIVE && (s->hold.state == STATE_HOLD || s->phases.number > 1))
        plan_add(s);
    recorder_unlock();
}

void explain_end(struct selection *s)
{
    if (speaks(s) && s->switches && (s->phases.number > 0 || s->hold.left))
        tell_end(s);
    text_free(&s->told->history);
    memory_free(s->told);
    s->told = NULL;
}

void explain_finish(MPI_Comm comm)
{
    char *rest = NULL;

    if (recorder.options.explains) {
        tree_collect_last(&words, "", NULL, LAST_WORDS, comm);
        for (char *line = words.bytes != NULL ? strtok_r(words.bytes, "\n", &rest) : NULL;
             line != NULL && recorder.rank == 0; line = strtok_r(NULL, "\n", &rest))
            recorder_say("%s", line);
        if (words.length == 0 && recorder.rank == 0)
            recorder_say("nothing was worth probing: too few calls, or too little time in them");
    }
    plan_finish(comm);
    text_free(&words);
}
