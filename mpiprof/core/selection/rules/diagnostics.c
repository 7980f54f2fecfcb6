/* Messages at the end of a run with selection: each is printed once, for all ranks and calls.
 *
 * The messages report rules that did not apply, counted over all communicators, and call sites that
 * share a key and so its choice. Any thread of a communicator's rank 0 adds notes under
 * recorder.lock. One thread prints the messages in MPI_Finalize.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/operation.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "base/text.h"
#include "base/tree.h"
#include "callsite/site.h"
#include "callsite/site_names.h"
#include "executor/library_algorithm.h"
#include "executor/mpi_t_algorithm.h"
#include "executor/private_comm.h"
#include "executor/scratch.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/schedule.h"
#include "selection/rules/diagnostics.h"
#include "selection/rules/rules.h"
#include "tracefile/file.h"

enum { MOST_NOTES = 16, MOST_SHARING = 4 };

/* Call sites that share one key, stored for the life of the process. */
struct sharing {
    const char *operation;
    const struct site *sites[MOST_SHARING];
    int overrides[MOST_SHARING], count;
};
static struct sharing sharings[MOST_NOTES]; /* protected by recorder.lock */
static int sharing_count;

/* Note that call sites share a key. `s` is the key's earlier note, or NULL. Returns the note, or
 * NULL if the list is full. */
struct sharing *diagnostics_share(struct sharing *s, const char *operation,
                                  const struct site *first, int first_override,
                                  const struct site *other, int override)
{
    recorder_lock();
    for (int i = 0; s == NULL && i < sharing_count; i++)
        if (sharings[i].operation == operation && sharings[i].sites[0] == first)
            s = &sharings[i];
    if (s == NULL && sharing_count < MOST_NOTES) {
        s = &sharings[sharing_count++];
        *s = (struct sharing){
            .operation = operation, .sites = {first}, .overrides = {first_override}, .count = 1};
    }
    bool known = s == NULL || s->count == MOST_SHARING;

    for (int i = 0; !known && i < s->count; i++)
        known = s->sites[i] == other;
    if (!known) {
        s->sites[s->count] = other;
        s->overrides[s->count++] = override;
    }
    recorder_unlock();
    return s;
}

static int winner_of(const struct sharing *s)
{
    int best = -1;

    for (int i = 0; i < s->count; i++)
        if (s->overrides[i] != RULE_NONE && (best < 0 || s->overrides[i] < s->overrides[best]))
            best = i;
    return best;
}

static bool any_sharing(void)
{
    for (int i = 0; i < sharing_count; i++)
        if (winner_of(&sharings[i]) >= 0)
            return true;
    return false;
}

static void add_sharing(struct text *t, const struct sharing *s)
{
    const int best = winner_of(s);
    struct text also = {0};

    if (best < 0)
        return;
    const struct rule *const r = rule_at(s->overrides[best]);

    for (int i = 0; i < s->count; i++) {
        if (i == best)
            continue;
        if (s->overrides[i] == RULE_NONE ||
            rule_at(s->overrides[i])->variant.label == r->variant.label)
            text_add(&also, "%s%s", also.length > 0 ? ", " : "", site_name_text(s->sites[i]));
        else if (strcmp(rule_at(s->overrides[i])->variant.label, r->variant.label) != 0)
            text_add(t,
                     "%s=%s gives way to %s=%s, which was named first: as the members of the "
                     "communicator see it these call sites (%s) are one\n",
                     site_name_text(s->sites[i]), rule_at(s->overrides[i])->variant.label,
                     site_name_text(s->sites[best]), r->variant.label, s->operation);
        else
            continue; /* the same override twice */
    }
    if (also.length > 0)
        text_add(t,
                 "%s=%s switched %s as well: as the members of the communicator see it these "
                 "call sites (%s) are one\n",
                 site_name_text(s->sites[best]), r->variant.label, also.bytes, s->operation);
    text_free(&also);
}

static const char *restriction_of(const struct rule *r)
{
    const struct algorithm *a = catalogue_find(r->operation, r->algorithm, false);

    if (a == NULL)
        a = catalogue_find(r->operation, r->algorithm, true);
    return a != NULL ? a->restrictions : NULL;
}

/* Append the requirements of a library algorithm. A rule may name several algorithms. */
static void add_needs(struct text *t, const struct rule *r)
{
    static const char *const texts[] = {
#define NEED(word, text) text,
        OWN_NEEDS(NEED)
#undef NEED
    };
    const struct own_algorithm *const own = mpi_t_algorithm_own(r->operation, r->own);

    for (int i = 0; own != NULL && i < NEEDS; i++)
        if (own->needs >> i & 1)
            text_add(t, "%s%s", t->length > 0 ? ", " : "", texts[i]);
    if (own != NULL && operation_reduces(own->operation))
        text_add(t, "%san operation of MPI's own", t->length > 0 ? ", " : "");
    if (own != NULL && own->segmented)
        text_add(t, "%sseveral segments", t->length > 0 ? ", " : "");
}

static void say_rule(const struct rule *r, uint64_t applied, uint64_t left)
{
    const char *const what = r->site != NULL ? r->site : r->operation;
    const char *why = restriction_of(r);
    struct text needs = {0};

    if (r->own != NULL) {
        add_needs(&needs, r);
        why = needs.bytes;
    }
    if (left > 0)
        recorder_say("%s=%s: %llu call%s left to the library, as it does not apply to %s%s%s%s",
                     what, r->variant.label, (unsigned long long)left, left > 1 ? "s were" : " was",
                     left > 1 ? "them" : "it", why != NULL ? " (it needs " : "",
                     why != NULL ? why : "", why != NULL ? ")" : "");
    else if (applied == 0 && r->site != NULL)
        recorder_say("%s=%s: rank 0 of no communicator called from there what could run on it",
                     what, r->variant.label);
    text_free(&needs);
}

static void say_obstacle(enum obstacle why, double calls)
{
    static const char *const reasons[OBSTACLES] = {
        [OBSTACLE_INTERFACE] = "it can't be told its own algorithms",
        [OBSTACLE_THREADS] = "several threads may call it (MPI_THREAD_MULTIPLE), and what it is "
                             "told holds for all of them: start the program with a lower level, "
                             "mpi4py with MPI4PY_RC_THREAD_LEVEL=serialized",
        [OBSTACLE_SESSIONS] = "without MPI_Init its thread level is not known",
        [OBSTACLE_SETTINGS] = "MPIR_CVAR_COLLECTIVE_FALLBACK or MPIR_CVAR_DEVICE_COLLECTIVES is "
                              "set: leave them at their defaults",
        [OBSTACLE_NOT_ASKED] = "not all members were asked for its own algorithms",
        [OBSTACLE_FIXED] = "it takes this setting only when it starts, or has none",
        [OBSTACLE_DUPLICATE] = "there was no communicator to be had for it: others had the private "
                               "ones that a process may have, 64 at a time, or MPI_Comm_idup "
                               "was called",
        [OBSTACLE_PROGRAM] = "the program has set its control variable itself"};

    if (calls > 0)
        recorder_say("%.0f call%s left to the library's own choice: %s", calls,
                     calls > 1 ? "s were" : " was", reasons[why]);
}

/* Report why communicators were left to the library, with a remedy if possible. */
static void say_refused(enum refusal why, double communicators)
{
    static const char *const reasons[REFUSALS] = {
        [REFUSED_FULL] = "others had the private ones that a process may have, 64 at a time",
        [REFUSED_DEVICE] = "a member uses a device (CUDA, HIP or Level Zero)",
        [REFUSED_MEMORY] = "a member had no memory left: start fewer processes a node",
        [REFUSED_BY_MPI] = "MPI had none more for a private one",
        [REFUSED_UNSURE] = "its members made several at once, in different threads, and cannot "
                           "tell them apart: give MPI_Intercomm_create different tags",
        [REFUSED_BUSY] = "whenever they would have got a private one, another thread was making "
                         "one"};

    if (communicators > 0)
        recorder_say("%.0f communicator%s left to the library: %s", communicators,
                     communicators > 1 ? "s were" : " was", reasons[why]);
}

static const char *size_of(int64_t bytes, char *text)
{
    int64_t mb = 1;

    while (mb << 20 < bytes)
        mb *= 2;
    sprintf(text, mb < 1024 ? "%lldM" : "%lldG", (long long)(mb < 1024 ? mb : mb / 1024));
    return text;
}

static void add_scratch(struct text *t, const struct scratch_note *n)
{
    char size[32], line[400];
    const int length =
        snprintf(line, sizeof line,
                 "%s=%s and the like were left out %llu time%s: ", n->algorithm->operation,
                 n->algorithm->name, (unsigned long long)n->times, n->times > 1 ? "s" : "");
    const size_t rest = sizeof line - (size_t)length;
    const double mb = (double)n->bytes / (1 << 20);

    if (n->bytes > n->limit)
        snprintf(line + length, rest, "it needs %.1f MB a process, --scratch %s allows so much", mb,
                 size_of(n->bytes, size));
    else
        snprintf(line + length, rest,
                 "some process could not have another %.1f MB, of --scratch %s for all "
                 "communicators",
                 mb, size_of(n->limit, size));
    text_add(t, "%s\n", line);
}

static void say_short(double ranks)
{
    if (ranks > 0)
        recorder_say("memory is short on %.0f rank%s: from then on the library's own routines ran, "
                     "where all could be told",
                     ranks, ranks > 1 ? "s" : "");
}

/* ---- reports of rank 0 for all ranks */

/* Keep the heavier of two reports, each preceded by its weight; of equal reports, that of the lower
 * rank. */
static void keep_heaviest(struct text *t, size_t earlier)
{
    int64_t mine, other;

    if (t->length < earlier + sizeof other)
        return;
    memcpy(&mine, t->bytes, sizeof mine);
    memcpy(&other, t->bytes + earlier, sizeof other);
    if (other > mine)
        memmove(t->bytes, t->bytes + earlier, t->length - earlier);
    t->length = other > mine ? t->length - earlier : earlier;
    t->bytes[t->length] = '\0';
}

static struct text report_begin(int64_t weight)
{
    struct text t = {0};

    text_bytes(&t, (const char *)&weight, sizeof weight);
    return t;
}

/* Print the heaviest report. If `noted` is true, it is also written to the trace. */
static void report_say(struct text *t, enum tree_last which, bool noted, MPI_Comm comm)
{
    char *rest = NULL;

    tree_collect_last(t, "", keep_heaviest, which, comm);
    for (char *line =
             t->length > sizeof(int64_t) ? strtok_r(t->bytes + sizeof(int64_t), "\n", &rest) : NULL;
         line != NULL && recorder.rank == 0; line = strtok_r(NULL, "\n", &rest)) {
        recorder_say("%s", line);
        if (noted)
            file_note("%s", line);
    }
    text_free(t);
}

static void say_sharings(MPI_Comm comm)
{
    struct text t = report_begin(any_sharing());

    if (any_sharing())
        site_name_resolve();
    for (int i = 0; i < sharing_count; i++)
        add_sharing(&t, &sharings[i]);
    report_say(&t, LAST_SHARING, false, comm);
}

static void say_scratch(MPI_Comm comm)
{
    const struct scratch_note note = scratch_noted();
    struct text t = report_begin(note.bytes);

    if (note.bytes > 0)
        add_scratch(&t, &note);
    report_say(&t, LAST_SCRATCH, true, comm);
}

static void add_counts(struct text *t, size_t earlier)
{
    double *const sum = (double *)(void *)t->bytes;

    if (t->length == 2 * earlier)
        for (size_t i = 0; i < earlier / sizeof *sum; i++)
            sum[i] += sum[earlier / sizeof *sum + i];
    t->length = earlier;
}

/* Return this rank's counts: of each rule, applied and not applied; refusals and library choices by
 * reason; whether memory was short. */
static struct text counts_make(void)
{
    struct text t = {0};
    double count;

#define COUNT(value) count = (double)(value), text_bytes(&t, (const char *)&count, sizeof count)
    for (int i = 0; i < rules_count(); i++) {
        COUNT(atomic_load(&rule_at(i)->applied));
        COUNT(atomic_load(&rule_at(i)->left_alone));
    }
    for (int i = 0; i < REFUSALS; i++)
        COUNT(private_comm_refused((enum refusal)i));
    for (int i = 0; i < OBSTACLES; i++)
        COUNT(library_algorithm_met((enum obstacle)i));
    COUNT(memory_short());
#undef COUNT
    return t;
}

static void say_counts(const double *all)
{
    const int rule_count = rules_count();

    for (int i = 0; i < rule_count; i++)
        say_rule(rule_at(i), (uint64_t)all[2 * i], (uint64_t)all[2 * i + 1]);
    all += 2 * rule_count;
    for (int i = 0; i < REFUSALS; i++)
        say_refused((enum refusal)i, all[i]);
    all += REFUSALS;
    for (int i = 0; i < OBSTACLES; i++)
        say_obstacle((enum obstacle)i, all[i]);
    say_short(all[OBSTACLES]);
}

static void say_missing(int ranks)
{
    static const char *const line = "of the ranks were not in MPI_Finalize 5 s after rank 0: what "
                                    "they report about the selection of algorithms is missing";

    if (ranks == 0)
        return;
    recorder_say("%d %s", ranks, line);
    file_note("%d %s", ranks, line);
}

/* Print all messages in MPI_Finalize, on all ranks that are still present. `comm` contains all
 * ranks, or is MPI_COMM_NULL. */
void diagnostics_end(MPI_Comm comm)
{
    struct text counts = counts_make();
    const int missing = tree_collect_last(&counts, "", add_counts, LAST_COUNTS, comm);

    if (recorder.rank == 0 && !counts.cut) { /* otherwise even the reserve is exhausted */
        say_counts((const double *)(const void *)counts.bytes);
        say_missing(missing);
    }
    text_free(&counts);
    say_scratch(comm);
    say_sharings(comm);
}
