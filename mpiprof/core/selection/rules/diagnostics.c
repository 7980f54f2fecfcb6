/* Messages at the end of a run with selection.
 *
 * They report rules that did not apply, communicators left to the library, and call sites that
 * share a key and so its choice. Each rank reports the communicators that it leads (is rank 0 of)
 * to its tables; rank 0 also prints its messages. Any thread adds to the counts and sharings; the
 * list of sharings is protected by recorder.lock. One thread reports in MPI_Finalize.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/operation.h"
#include "base/recorder.h"
#include "callsite/callsite.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/rules/rules.h"
#include "tracefile/tracefile.h"

enum { MOST_NOTES = 16, MOST_SHARING = 4 };

/* Call sites that share one key, stored for the life of the process. */
struct sharing {
    const char *operation;
    const struct site *sites[MOST_SHARING];
    int overrides[MOST_SHARING], count;
};
static struct sharing sharings[MOST_NOTES]; /* protected by recorder.lock */
static int sharing_count;
static atomic_int untreated; /* calls that `--switch robust` left to the library */

/* Return the list that starts with a call site, or NULL if there are too many lists. */
static struct sharing *sharing_find(const char *operation, const struct site *first, int override)
{
    for (int i = 0; i < sharing_count; i++)
        if (sharings[i].operation == operation && sharings[i].sites[0] == first)
            return &sharings[i];
    if (sharing_count == MOST_NOTES)
        return NULL;
    sharings[sharing_count] = (struct sharing){
        .operation = operation, .sites = {first}, .overrides = {override}, .count = 1};
    return &sharings[sharing_count++];
}

/* Note that two call sites share a key. */
void diagnostics_share(const char *operation, const struct site *first, int first_override,
                       const struct site *other, int override)
{
    recorder_lock();
    struct sharing *const s = sharing_find(operation, first, first_override);
    int i = 0;

    while (s != NULL && i < s->count && s->sites[i] != other)
        i++;
    if (s != NULL && i == s->count && i < MOST_SHARING) {
        s->sites[i] = other;
        s->overrides[i] = override;
        s->count++;
    }
    recorder_unlock();
}

/* Count a call that `--switch robust` leaves to the library. */
void diagnostics_untreated(const struct communicator *k)
{
    if (comm_is_leader(k))
        atomic_fetch_add(&untreated, 1);
}

static int winner_of(const struct sharing *s)
{
    int best = -1;

    for (int i = 0; i < s->count; i++)
        if (s->overrides[i] != RULE_NONE && (best < 0 || s->overrides[i] < s->overrides[best]))
            best = i;
    return best;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    struct text message = {0};
    va_list arguments;

    va_start(arguments, format);
    text_format(&message, format, arguments);
    va_end(arguments);
    if (recorder.rank == 0 && message.bytes != NULL)
        recorder_print("%s", message.bytes);
    if (message.bytes != NULL)
        file_write_note("%s", message.bytes);
    text_free(&message);
}

static void say_sharing(const struct sharing *s)
{
    const int best = winner_of(s);
    struct text also = {0};

    if (best < 0)
        return;
    const struct rule *const r = rule_at(s->overrides[best]);

    for (int i = 0; i < s->count; i++) {
        const struct rule *const other = rule_at(s->overrides[i]);

        if (i == best)
            continue;
        if (other == NULL || other->variant.label == r->variant.label) {
            text_add(&also, also.length > 0 ? ", " : "");
            site_name(s->sites[i], &also);
        } else if (strcmp(other->variant.label, r->variant.label) != 0) {
            say("%s=%s yields to %s=%s, which comes first: these call sites (%s) share one history "
                "on their communicator, so they share one algorithm",
                other->site, other->variant.label, r->site, r->variant.label, s->operation);
        }
    }
    if (also.length > 0)
        say("%s=%s also applies to %s: these call sites (%s) share one history on their "
            "communicator, so they share one algorithm",
            r->site, r->variant.label, also.bytes, s->operation);
    text_free(&also);
}

/* Append the requirements of a rule's algorithm. The rule may name algorithms of several operations
 * and both types of communicators. */
static void add_needs(struct text *t, const struct rule *r)
{
    static const char *const texts[] = {
#define NEED(word, text) text,
        OWN_NEEDS(NEED)
#undef NEED
    };
    if (r->library_algorithm == NULL) {
        const struct algorithm *a = catalogue_find(r->operation, r->algorithm, false);

        if (a == NULL)
            a = catalogue_find(r->operation, r->algorithm, true);
        if (a != NULL && a->restrictions != NULL)
            text_add(t, "%s", a->restrictions);
        return;
    }
    const struct library_algorithm *const own =
        mpi_t_algorithm_find(r->operation, r->library_algorithm);

    if (own == NULL)
        return;
    for (int i = 0; i < NEEDS; i++)
        if (own->needs >> i & 1)
            text_add(t, "%s%s", t->length > 0 ? ", " : "", texts[i]);
    if (operation_reduces(own->operation))
        text_add(t, "%sa predefined reduction operation", t->length > 0 ? ", " : "");
    if (own->segmented)
        text_add(t, "%sseveral segments", t->length > 0 ? ", " : "");
}

static void say_rule(struct rule *r)
{
    const uint64_t left = atomic_load(&r->skipped);
    const char *const what = r->site != NULL ? r->site : r->operation;
    struct text needs = {0};

    add_needs(&needs, r);
    if (left > 0)
        say("%s=%s: %llu call%s left to the library, because the algorithm does not apply to "
            "%s%s%s%s",
            what, r->variant.label, (unsigned long long)left, left > 1 ? "s were" : " was",
            left > 1 ? "them" : "it", needs.length > 0 ? " (it requires " : "",
            needs.length > 0 ? needs.bytes : "", needs.length > 0 ? ")" : "");
    else if (atomic_load(&r->applied) == 0 && r->site != NULL && recorder.rank == 0)
        say("%s=%s was not used: it applies to no call that rank 0 of a communicator made there",
            what, r->variant.label);
    text_free(&needs);
}

/* Reasons why single calls were left to the library, with a remedy if possible. */
static const char *const obstacles[OBSTACLES] = {
    [OBSTACLE_INTERFACE] = "this MPI library has no selectable algorithms",
    [OBSTACLE_THREADS] = "MPI_T settings apply to all threads, and several threads may call MPI "
                         "(MPI_THREAD_MULTIPLE): start the program with MPI_THREAD_SERIALIZED, "
                         "mpi4py with MPI4PY_RC_THREAD_LEVEL=serialized",
    [OBSTACLE_SESSIONS] = "the thread level is unknown without MPI_Init",
    [OBSTACLE_SETTINGS] = "MPIR_CVAR_COLLECTIVE_FALLBACK or MPIR_CVAR_DEVICE_COLLECTIVES is set: "
                          "leave them at their defaults",
    [OBSTACLE_NOT_ASKED] = "not all members request library algorithms",
    [OBSTACLE_FIXED] = "the library reads this setting only at its start, or has no such setting",
    [OBSTACLE_DUPLICATE] =
        "no private communicator was available: other communicators use the 64 "
        "that a process may have, or the program was creating one at each attempt",
    [OBSTACLE_PROGRAM] = "the program has set its control variable itself"};

/* The same for communicators. */
static const char *const refusals[REFUSALS] = {
    [REFUSED_FULL] = "other communicators use the 64 private communicators that a process may have",
    [REFUSED_DEVICE] = "a member uses a device (CUDA, HIP or Level Zero)",
    [REFUSED_MEMORY] = "a member had no memory left: start fewer processes on each node",
    [REFUSED_BY_MPI] = "MPI could not create another private communicator",
    [REFUSED_UNSURE] =
        "several threads created communicators with the same members at once, which cannot be "
        "distinguished: pass different tags to MPI_Intercomm_create",
    [REFUSED_BUSY] =
        "the program was creating a communicator, in another thread or by MPI_Comm_idup, at each "
        "attempt to create a private one"};

static void say_left(int count, const char *noun, const char *left_to, const char *reason)
{
    if (count > 0)
        say("%d %s%s left to %s: %s", count, noun, count > 1 ? "s were" : " was", left_to, reason);
}

static const char *size_of(int64_t bytes, char *text)
{
    int64_t mb = 1;

    while (mb << 20 < bytes)
        mb *= 2;
    sprintf(text, mb < 1024 ? "%lldM" : "%lldG", (long long)(mb < 1024 ? mb : mb / 1024));
    return text;
}

static void say_scratch(void)
{
    const struct scratch_note n = scratch_omitted;
    const double mb = (double)n.bytes / (1 << 20);
    char what[200], size[32];

    if (n.bytes == 0)
        return;
    snprintf(what, sizeof what, "%s=%s and its variants did not run %llu time%s",
             n.algorithm->operation, n.algorithm->name, (unsigned long long)n.times,
             n.times > 1 ? "s" : "");
    if (n.bytes > recorder.options.scratch)
        say("%s: they require %.1f MB for each process, which --scratch %s permits", what, mb,
            size_of(n.bytes, size));
    else
        say("%s: a process could not allocate another %.1f MB, within --scratch %s for all "
            "communicators",
            what, mb, size_of(recorder.options.scratch, size));
}

/* Report at the end of the program, on all ranks; no rank waits for another one. */
void diagnostics_end(void)
{
    for (int i = 0; rule_at(i) != NULL; i++)
        say_rule(rule_at(i));
    for (int i = 0; i < REFUSALS; i++)
        say_left(atomic_load(&private_comm_refusals[i]), "communicator", "the library",
                 refusals[i]);
    for (int i = 0; i < OBSTACLES; i++)
        say_left(atomic_load(&library_algorithm_obstacles[i]), "call", "the library's own choice",
                 obstacles[i]);
    say_left(atomic_load(&untreated), "call", "the library's own choice",
             "--switch robust treats alltoall and alltoallv within one group only");
    if (memory_is_short())
        say("memory is short: after that the library's algorithms ran, where all members could "
            "be informed");
    say_scratch();
    for (int i = 0; i < sharing_count; i++)
        say_sharing(&sharings[i]);
}
