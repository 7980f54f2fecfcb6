/* Export of the choices as a plan (`--plan-out`), with entries in the format of tune/plan.py.
 *
 * The plan is collected until the end and is protected by recorder.lock. Rank 0 writes the entries
 * of all ranks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/operation.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "base/text.h"
#include "base/tree.h"
#include "callsite/site_names.h"
#include "executor/mpi_t_algorithm.h"
#include "executor/variant.h"
#include "schedule/schedule.h"
#include "selection/online/candidates.h"
#include "selection/online/plan.h"
#include "selection/online/provenance.h"
#include "selection/online/rank_test.h"
#include "selection/online/report_info.h"
#include "selection/online/selection.h"
#include "tracefile/file.h"
#include "tracefile/meta.h"

enum { MOST_BYTES = 1 << 20 };

static struct text plan;

/* Write all call sites, or none if a plan cannot name one of them. */
static void put_places(const struct selection *s, struct text *t)
{
    const char *places[sizeof s->told->sites / sizeof *s->told->sites];
    int count = 0;

    for (int i = 0; i < s->told->site_count; i++) {
        const char *const place = site_name_place(s->told->sites[i]);
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

static void put_parameters(const struct variant *v, struct text *t)
{
    const char *before = "\"parameters\": {";

    if (v->block_size > 0) {
        text_add(t, "%s\"block_size\": %lld", before, (long long)v->block_size);
        before = ", ";
    }
    if (v->equal_blocks) {
        text_add(t, "%s\"blocks\": \"equal\"", before);
        before = ", ";
    }
    if (v->order != ORDER_RANKS) {
        text_add(t, "%s\"order\": \"%s\"", before, variant_order(v));
        before = ", ";
    }
    if (v->late > 0) {
        text_add(t, "%s\"late\": %d", before, v->late);
        before = ", ";
    }
    if (v->segment > 0) {
        text_add(t, "%s\"segment\": %lld", before, (long long)v->segment);
        before = ", ";
    }
    if (*before == ',')
        text_add(t, "}, ");
}

static void put_entry(const struct selection *s, struct text *t)
{
    const struct candidate *const c = &s->list[s->hold.current];
    int64_t from = 1, to = 1;

    while (s->told->bytes > 64 && to < s->told->bytes)
        to *= 2;
    from = s->told->bytes > 64 ? to / 2 + 1 : s->told->bytes;
    to = s->told->bytes > 64 ? to : s->told->bytes;
    text_add(t, "  {\"operation\": \"%s\", \"size\": %d, ", operation_names[s->told->operation],
             s->told->comm->size + s->told->comm->remote_size);
    if (s->told->known)
        text_add(t, "\"bytes\": {\"from\": %lld, \"to\": %lld}, ", (long long)from, (long long)to);
    put_places(s, t);
    text_add(t, "\"algorithm\": \"%s\", ",
             c->variant.own != NULL ? c->variant.own->label : c->variant.algorithm->name);
    put_parameters(&c->variant, t);
    text_add(t, "\"why\": \"%s",
             s->hold.state == STATE_HOLD ? s->hold.why : "chosen before what was tried at the end");
    if (s->observed.native_ns > 0)
        text_add(t, ": %.1f us, the library's own %.1f us", (double)rank_test_median(c) / 1e3,
                 (double)s->observed.native_ns / 1e3);
    text_add(t, "\", ");
    provenance_add(t);
    text_add(t, "}");
}

/* Add the entry of a key. If keys that differ only in history have equal entries, the first one is
 * used. */
void plan_add(const struct selection *s)
{
    struct text entry = {0};

    if (recorder.options.plan_out == NULL || plan.length > MOST_BYTES)
        return;
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

static void write_file(void)
{
    const char *const path = recorder.options.plan_out;
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

void plan_finish(MPI_Comm comm)
{
    if (recorder.options.plan_out == NULL)
        return;
    tree_collect_last(&plan, ",\n", NULL, LAST_PLAN, comm);
    if (recorder.rank == 0)
        write_file();
    text_free(&plan);
}
