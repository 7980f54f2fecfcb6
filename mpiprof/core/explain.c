/* What was tried, what won and why: in selection.jsonl of the trace as it happens, and at the end
 * in words (`--explain`) and as a plan (`--plan-out`).
 *
 *   {"kind": "key", "key": "0f..", "communicator": "8c..", "operation": "alltoall", "bytes": ..
 *   {"kind": "phase", "key": "0f..", "phase": 1, "instance": 12, "why": "start", ..
 *   {"kind": "trial", "key": "0f..", "phase": 1, "algorithm": "ring", "instances": 5, ..
 *   {"kind": "choice", "key": "0f..", "phase": 1, "instance": 40, "algorithm": "ring", "why": ..
 *   {"kind": "end", "key": "0f..", "instances": 300, "probes": 38, "algorithm": "ring", ..
 *
 * Written by the member that leads its communicator; the others come here and write nothing. What
 * is kept for the end is under recorder.lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auto.h"
#include "memory.h"

static struct text words, plan; /* for the end, under recorder.lock */
static int reductions_switched;
enum { MOST_WORDS = 1 << 20 };
static const char *plan_path; /* NULL: no plan is wanted */
static bool told;             /* `--explain` */

/* Once: a program may change its environment. */
void explain_start(void)
{
    const char *const path = getenv("MPIPROF_PLAN_OUT");

    if (path != NULL && plan_path == NULL)
        plan_path = memory_text(path);
    told = getenv("MPIPROF_EXPLAIN") != NULL;
}

static const char *name_of(const struct candidate *c)
{
    return c->label != NULL ? c->label : "native";
}

static bool speaks(const struct selection *s)
{
    return communicator_leads(s->comm);
}

static struct text line_begin(const struct selection *s, const char *kind)
{
    struct text t = {0};

    text_add(&t, "{\"kind\": \"%s\", \"key\": \"%016llx\"", kind, (unsigned long long)s->key);
    return t;
}

static void line_end(struct text *t)
{
    text_add(t, "}\n");
    file_selection(t);
    text_free(t);
}

/* ---- as it happens */

/* Of all that the members know; where each knows its own only, of this one. */
static int64_t bytes_of(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    int64_t total = p->bytes;

    for (int i = 0; problem_is_known(e) && p->counts != NULL && i < p->size; i++)
        total += p->counts[i];
    return total;
}

/* The message whose time the report divides by: of a pair, a contribution, the vector. */
static int64_t message_bytes(const struct execution *e)
{
    const struct problem *const p = &e->problem;

    if (p->counts == NULL || !problem_is_known(e))
        return p->bytes;
    return e->call->operation == OP_reduce_scatter ? bytes_of(e) : bytes_of(e) / p->size;
}

void explain_site(struct selection *s, const struct site *site)
{
    for (int i = 0; i < s->site_count; i++)
        if (s->sites[i] == site)
            return;
    if (s->site_count < (int)(sizeof s->sites / sizeof *s->sites)) {
        s->sites[s->site_count++] = site;
        s->written = false; /* the key is written again, with all of them */
    }
}

void explain_key(struct selection *s, const struct execution *e)
{
    s->comm = e->call->comm;
    s->operation = e->call->operation;
    s->root = e->call->root;
    s->bytes = bytes_of(e);
    s->known = problem_is_known(e);
    s->message_ns = (int64_t)(e->problem.alpha + e->problem.beta * (double)message_bytes(e));
    if (speaks(s) && e->call->site != NULL)
        explain_site(s, e->call->site);
}

static void write_key(struct selection *s)
{
    struct text t;

    if (s->written || !speaks(s))
        return;
    s->written = true;
    t = line_begin(s, "key");
    text_add(&t, ", \"communicator\": \"%016llx\", \"operation\": \"%s\", \"bytes\": %lld, ",
             (unsigned long long)s->comm->identity, operation_names[s->operation],
             (long long)s->bytes);
    text_add(&t, s->root == ROOT_NONE ? "\"root\": null" : "\"root\": %d", s->root);
    text_add(&t, ", \"size\": %d, \"sites\": [", s->comm->size + s->comm->remote_size);
    for (int i = 0; i < s->site_count; i++) {
        text_add(&t, i > 0 ? ", " : "");
        text_json(&t, site_name(s->sites[i]), -1);
    }
    text_add(&t, "], \"frames\": ["); /* of those whose line can be looked up later */
    for (int i = 0; i < s->site_count; i++) {
        const char *const frame = site_frame(s->sites[i]);

        text_add(&t, "%s%s", i > 0 ? ", " : "", frame != NULL ? frame : "null");
    }
    text_add(&t, "]");
    line_end(&t);
}

void explain_phase(struct selection *s)
{
    struct text t;

    if (!speaks(s))
        return;
    write_key(s);
    t = line_begin(s, "phase");
    text_add(&t, ", \"phase\": %d, \"instance\": %lld, \"why\": \"%s\", \"imbalance_ns\": %lld, ",
             s->phase, (long long)s->instances, s->why, (long long)s->worst_ns);
    text_add(&t, "\"score_ns\": %lld, \"window\": %d",
             (long long)candidate_median(&s->list[s->current]), s->arrivals->length);
    line_end(&t);
    text_add(&s->history, "    instance %lld: probing begins (%s)\n", (long long)s->instances,
             s->why);
}

/* Of one or two scores the median distance from their median is no measure of noise. */
static bool has_spread(const struct candidate *c)
{
    return c->seen > 2;
}

/* What this phase has measured. */
void explain_trials(struct selection *s)
{
    if (!speaks(s))
        return;
    write_key(s);
    for (int i = 0; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];
        struct text t;

        if (c->tried == 0)
            continue;
        t = line_begin(s, "trial");
        text_add(&t, ", \"phase\": %d, \"algorithm\": \"%s\", \"instances\": %d, ", s->phase,
                 name_of(c), c->tried);
        text_add(&t, "\"score_ns\": %lld, \"predicted_ns\": %lld", (long long)candidate_known(c),
                 (long long)c->predicted_ns);
        if (has_spread(c))
            text_add(&t, ", \"error_ns\": %lld", (long long)candidate_spread(c));
        line_end(&t);
    }
}

void explain_choice(struct selection *s)
{
    struct text t;

    if (!speaks(s))
        return;
    write_key(s);
    t = line_begin(s, "choice");
    text_add(&t, ", \"phase\": %d, \"instance\": %lld, \"algorithm\": \"%s\", \"why\": \"%s\"",
             s->phase, (long long)s->instances, name_of(&s->list[s->current]), s->why);
    line_end(&t);
    text_add(&s->history, "    instance %lld: %s (%s)\n", (long long)s->instances,
             name_of(&s->list[s->current]), s->why);
    if (s->current == NATIVE || !is_reduction(s->operation) || s->state != STATE_HOLD)
        return;
    recorder_lock();
    const bool first = reductions_switched++ == 0;
    recorder_unlock();
    if (first)
        recorder_say("%s now runs on %s: floating-point results may round differently; "
                     "--reproducible leaves reductions to the library",
                     operation_names[s->operation], name_of(&s->list[s->current]));
}

/* ---- at the end */

/* Where this was measured, under which MPI, when. The library's text begins "MPICH Version: 5.0.2"
 * or "Open MPI v5.0.11, package ..". */
static void put_origin(struct text *t)
{
    char name[200] = "", host[256] = "node", stamp[32];
    const char *s = meta_library();
    int words = strncmp(s, "Open", 4) == 0 ? 3 : 2;

    while (words-- > 0 && *s != '\0') {
        s += strspn(s, " ");
        if (strncmp(s, "Version:", 8) == 0)
            s += 8 + strspn(s + 8, " ");
        const size_t length = strcspn(s, " ,");

        if (strlen(name) + length + 2 < sizeof name)
            sprintf(name + strlen(name), "%s%.*s", name[0] != '\0' ? " " : "", (int)length, s);
        s += length;
    }
    gethostname(host, sizeof host - 1);
    meta_now(stamp, sizeof stamp);
    text_add(t, "\"measured\": {\"how\": \"auto\", \"mpi\": ");
    text_json(t, name, -1);
    text_add(t, ", \"hosts\": [");
    text_json(t, host, -1);
    text_add(t, "], \"date\": \"%.10s\"}", stamp);
}

/* All call sites, or none where one of them has no name that a plan understands. */
static void put_places(const struct selection *s, struct text *t)
{
    const char *places[sizeof s->sites / sizeof *s->sites];
    int count = 0;

    for (int i = 0; i < s->site_count; i++) {
        const char *const place = site_place(s->sites[i]);
        int same = 0;

        if (place == NULL)
            return;
        while (same < count && strcmp(places[same], place) != 0)
            same++;
        places[same] = place;
        count += same == count;
    }
    for (int i = 0; i < count; i++) {
        text_add(t, i == 0 ? "\"call_sites\": [" : ", ");
        text_json(t, places[i], -1);
    }
    text_add(t, count > 0 ? "], " : "");
}

static void put_entry(const struct selection *s, struct text *t)
{
    const struct candidate *const c = &s->list[s->current];
    int64_t from = 1, to = 1;

    while (s->bytes > 64 && to < s->bytes)
        to *= 2;
    from = s->bytes > 64 ? to / 2 + 1 : s->bytes;
    to = s->bytes > 64 ? to : s->bytes;
    text_add(t, "  {\"operation\": \"%s\", \"size\": %d, ", operation_names[s->operation],
             s->comm->size + s->comm->remote_size);
    if (s->known)
        text_add(t, "\"bytes\": {\"from\": %lld, \"to\": %lld}, ", (long long)from, (long long)to);
    put_places(s, t);
    text_add(t, "\"algorithm\": \"%s\", ", c->algorithm->name);
    if (c->block_size > 0 || c->order > 0)
        text_add(t, "\"parameters\": {%s%.0lld%s%s}, ", c->block_size > 0 ? "\"block_size\": " : "",
                 (long long)c->block_size, c->block_size > 0 && c->order > 0 ? ", " : "",
                 c->order > 0 ? "\"order\": \"both\"" : "");
    text_add(t, "\"why\": \"%s", s->why);
    if (s->native_ns > 0)
        text_add(t, ": %.1f us, the library's own %.1f us", (double)candidate_median(c) / 1e3,
                 (double)s->native_ns / 1e3);
    text_add(t, "\", ");
    put_origin(t);
    text_add(t, "}");
}

/* Keys that differ by their history alone may come to the same: then the first one stands. */
static void put_plan(const struct selection *s)
{
    struct text entry = {0};

    put_entry(s, &entry);
    const char *const why = entry.bytes != NULL ? strstr(entry.bytes, "\"why\"") : NULL;
    const size_t same = why != NULL ? (size_t)(why - entry.bytes) : 0;
    bool known = entry.cut;

    plan.cut |= entry.cut;
    for (const char *at = plan.bytes; at != NULL && !known; at = strchr(at, '\n')) {
        at += *at == '\n';
        known = strncmp(at, entry.bytes, same) == 0;
    }
    if (!known)
        text_add(&plan, "%s%s", plan.length > 0 ? ",\n" : "", entry.bytes);
    text_free(&entry);
}

static void put_score(const struct candidate *c)
{
    text_add(&words, "    %-32s %8.1f us ", name_of(c), (double)candidate_known(c) / 1e3);
    if (has_spread(c))
        text_add(&words, "+- %.1f ", (double)candidate_spread(c) / 1e3);
    text_add(&words, "in %d instance%s\n", c->tried, c->tried == 1 ? "" : "s");
}

static void put_words(const struct selection *s)
{
    text_add(&words, "%s", operation_names[s->operation]);
    if (s->known)
        text_add(&words, " of %lld bytes", (long long)s->bytes);
    for (int i = 0; i < s->site_count; i++) {
        bool again = false; /* a compiler may make several calls of one line */

        for (int j = 0; j < i; j++)
            again |= strcmp(site_name(s->sites[i]), site_name(s->sites[j])) == 0;
        if (!again)
            text_add(&words, "%s%s", i == 0 ? " at " : ", ", site_name(s->sites[i]));
    }
    text_add(&words, ": %s; %lld instances, %d of them probes; %s %.1f ms a rank\n",
             name_of(&s->list[s->current]), (long long)s->instances, s->all_probes,
             s->saved_ns < 0 ? "lost" : "saved", (double)llabs(s->saved_ns) / 1e6);
    text_add(&words, "%s", s->history.bytes != NULL ? s->history.bytes : "");
    if (s->state == STATE_PROBE)
        text_add(&words, "    instance %lld: the end, and probing is not over\n",
                 (long long)s->instances);
    for (int i = 0; i < s->count; i++)
        if (s->list[i].tried > 0)
            put_score(&s->list[i]);
}

/* Of a key that is used no more. */
void explain_end(struct selection *s)
{
    struct text t;

    if (!speaks(s) || !s->switches || (s->phase == 0 && !s->left))
        return;
    write_key(s);
    t = line_begin(s, "end");
    text_add(&t, ", \"instances\": %lld, \"probes\": %d, \"algorithm\": \"%s\", \"saved_ns\": %lld",
             (long long)s->instances, s->all_probes, name_of(&s->list[s->current]),
             (long long)s->saved_ns);
    line_end(&t);
    if (told || plan_path != NULL)
        names_resolve();
    recorder_lock();
    if (told && words.length < MOST_WORDS)
        put_words(s);
    if (plan_path != NULL && plan.length < MOST_WORDS && s->state == STATE_HOLD &&
        s->current != NATIVE)
        put_plan(s);
    recorder_unlock();
    text_free(&s->history);
}

static int part_of(int64_t length, size_t most)
{
    return (int)(length < (int64_t)most ? length : (int64_t)most);
}

/* Rank 0 gets the texts of all; `comm` has all ranks, or is MPI_COMM_NULL. */
static void collect(struct text *t, MPI_Comm comm)
{
    enum { TAG = 19939 };
    char piece[1 << 14];
    const int64_t mine = (int64_t)t->length;

    if (comm == MPI_COMM_NULL)
        return;
    int64_t *const lengths = memory_get((size_t)recorder.size * sizeof *lengths);

    if (lengths == NULL)
        return;
    pmpi.Allgather(&mine, sizeof mine, MPI_BYTE, lengths, sizeof mine, MPI_BYTE, comm);
    for (int64_t at = 0; recorder.rank > 0 && at < mine; at += (int)sizeof piece)
        pmpi.Send(t->bytes + at, part_of(mine - at, sizeof piece), MPI_BYTE, 0, TAG, comm);
    for (int i = 1; recorder.rank == 0 && i < recorder.size; i++) {
        if (t == &plan && t->length > 0 && lengths[i] > 0)
            text_add(t, ",\n");
        for (int64_t at = 0; at < lengths[i]; at += (int)sizeof piece) {
            const int part = part_of(lengths[i] - at, sizeof piece);

            pmpi.Recv(piece, part, MPI_BYTE, i, TAG, comm, MPI_STATUS_IGNORE);
            text_add(t, "%.*s", part, piece);
        }
    }
    memory_free(lengths);
}

static void plan_write(const char *path)
{
    const int descriptor =
        plan.cut ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    struct text t = {0};

    text_add(&t, "[\n%s\n]\n", plan.length > 0 ? plan.bytes : "");
    if (plan.cut)
        recorder_say("--plan-out: %s is not written: there was no memory for it", path);
    else if (descriptor < 0 || t.cut || !file_write(descriptor, &t))
        recorder_say("--plan-out: cannot write %s: %s", path, strerror(t.cut ? ENOMEM : errno));
    if (descriptor >= 0)
        close(descriptor);
    text_free(&t);
}

void explain_finish(MPI_Comm comm)
{
    char *rest = NULL;

    if (told) {
        collect(&words, comm);
        for (char *line = words.bytes != NULL ? strtok_r(words.bytes, "\n", &rest) : NULL;
             line != NULL && recorder.rank == 0; line = strtok_r(NULL, "\n", &rest))
            recorder_say("%s", line);
        if (words.length == 0 && recorder.rank == 0)
            recorder_say("nothing was worth probing: too few calls, or too little time in them");
    }
    if (plan_path != NULL) {
        collect(&plan, comm);
        if (recorder.rank == 0)
            plan_write(plan_path);
    }
    text_free(&words);
    text_free(&plan);
}
