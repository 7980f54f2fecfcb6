/* Corrections of the model from measurements, for later keys and with --learn for later jobs. A
 * communicator's leader appends its measurements to the file of --learn when a phase ends.
 *
 * An entry refers to an algorithm of the catalogue or of the library (native:ring) and to a class
 * of bytes and members (powers of 2). In the mean over `runs`, the algorithm took `ratio` times the
 * model's prediction. A prediction is multiplied by
 *
 *      (shared + sum of w ratio) / (1 + sum of w)      w = runs / 2^(class distance)
 *
 * over the entries of the algorithm. `shared` is the same formula over all algorithms, with 1 in
 * place of `shared`. So the factor of an unknown algorithm stays near 1, and a common error also
 * corrects algorithms that were never tried. For a library algorithm, `shared` is the factor of its
 * equivalent in the catalogue.
 *
 * Each rank corrects its predictions by its own measurements. The members agree on the corrected
 * predictions with their windows, as on uncorrected ones.
 *
 * Threads: all state is protected by recorder.lock.
 */
#include "selection/online/selection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/operation.h"
#include "base/recorder.h"
#include "executor/library_algorithm.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/online/key_log.h"
#include "tracefile/tracefile.h"

enum {
    MOST_ENTRIES = 512,
    MOST_RUNS = 16, /* maximum weight of an entry, so that new measurements replace old ones */
    NEAR = 8 /* maximum class distance of bytes plus members at which an entry still counts */
};

struct entry {
    const struct algorithm *algorithm;
    const struct library_algorithm *own; /* library algorithm, if `algorithm` is NULL */
    int bytes, members;                  /* logarithms to base 2 */
    double ratio;
    int runs;
};
static SPARSE struct entry entries[MOST_ENTRIES];
static int entry_count;

/* ---- the table */

static void correction_add(const struct entry *new)
{
    for (int i = 0; i < entry_count; i++) {
        struct entry *const e = &entries[i];

        if (e->algorithm != new->algorithm || e->own != new->own || e->bytes != new->bytes ||
            e->members != new->members)
            continue;
        e->ratio = (e->ratio * e->runs + new->ratio * new->runs) / (e->runs + new->runs);
        e->runs = e->runs + new->runs < MOST_RUNS ? e->runs + new->runs : MOST_RUNS;
        return;
    }
    if (entry_count < MOST_ENTRIES)
        entries[entry_count++] = *new;
}

static bool is_of_algorithm(const struct entry *e, const struct entry *of)
{
    return e->algorithm == of->algorithm && e->own == of->own;
}

/* Return true for all catalogue algorithms of the operation. */
static bool is_of_operation(const struct entry *e, const struct entry *of)
{
    return e->own == NULL && strcmp(e->algorithm->operation, of->algorithm->operation) == 0 &&
           e->algorithm->inter == of->algorithm->inter;
}

/* Return the factor from the entries that match `of`, and from the prior. */
static double factor_of(const struct entry *of,
                        bool (*matches)(const struct entry *e, const struct entry *of),
                        double prior)
{
    double sum = prior, weights = 1;

    for (int i = 0; i < entry_count; i++) {
        const struct entry *const e = &entries[i];
        const int distance = abs(e->bytes - of->bytes) + abs(e->members - of->members);

        if (distance <= NEAR && matches(e, of)) {
            sum += (double)e->runs / (1 << distance) * e->ratio;
            weights += (double)e->runs / (1 << distance);
        }
    }
    return sum / weights;
}

/* Return the factor by which the model's prediction must be multiplied. For a library algorithm,
 * `like` is the equivalent that the model used. */
double model_correction_factor(const struct variant *v, const struct algorithm *like, int64_t bytes,
                               int members)
{
    struct entry of = {.algorithm = v->library_algorithm != NULL ? like : v->algorithm,
                       .bytes = log2_floor(bytes),
                       .members = log2_floor(members)};

    recorder_lock();
    double factor = factor_of(&of, is_of_algorithm, factor_of(&of, is_of_operation, 1));

    if (v->library_algorithm != NULL) {
        of.algorithm = NULL;
        of.own = v->library_algorithm;
        factor = factor_of(&of, is_of_algorithm, factor);
    }
    recorder_unlock();
    return factor;
}

/* ---- this job */

static void line_add(struct text *t, const struct entry *e)
{
    char stamp[32];

    meta_timestamp(stamp, sizeof stamp);
    text_add(t, "{\"operation\": \"%s\", \"algorithm\": \"%s\", ",
             e->own != NULL ? operation_names[e->own->operation] : e->algorithm->operation,
             e->own != NULL ? e->own->label : e->algorithm->name);
    text_add(t, "\"bytes\": %lld, \"members\": %d, \"ratio\": %.4g, \"runs\": %d, ",
             1LL << e->bytes, 1 << e->members, e->ratio, e->runs);
    text_add(t, "\"measured\": {\"date\": \"%.10s\", \"mpi\": ", stamp);
    text_json(t, meta_library(), -1);
    text_add(t, "}}\n");
}

/* Append lines to the file of --learn, as other processes may do at the same time. */
static void lines_write(const struct text *lines)
{
    static bool failed; /* reported already */
    const char *const path = recorder.options.learn;
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

    if ((descriptor < 0 || lines->cut || !file_write(descriptor, lines)) && !failed) {
        failed = true;
        recorder_print("--learn: cannot write %s: %s", path, strerror(lines->cut ? ENOMEM : errno));
    }
    if (descriptor >= 0)
        close(descriptor);
}

/* Record the trials of a phase at its end. */
void model_correction_note(const struct selection *s)
{
    const bool writes = recorder.options.learn != NULL && comm_is_leader(s->log->comm);
    struct text lines = {0};

    recorder_lock();
    for (int i = 1; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];

        if (c->measured == 0 || c->seen == 0 || c->model_ns <= 0)
            continue;
        const struct entry new = {.algorithm = c->variant.algorithm,
                                  .own = c->variant.library_algorithm,
                                  .bytes = log2_floor(s->problem.bytes > 0 ? s->problem.bytes : 1),
                                  .members = log2_floor(s->arrivals->member.members),
                                  .ratio = (double)rank_test_median(c) / (double)c->model_ns,
                                  .runs = c->measured < MOST_RUNS ? c->measured : MOST_RUNS};

        correction_add(&new);
        if (writes)
            line_add(&lines, &new);
    }
    if (lines.length > 0)
        lines_write(&lines);
    recorder_unlock();
    text_free(&lines);
}

/* ---- other jobs */

/* Read the entries that the launcher passes on: "allreduce ring 16 3 1.83 5;", with log2 of bytes
 * and members. */
void model_correction_start(void)
{
    const char *s = recorder.options.learned;

    entry_count = 0;
    for (; s != NULL && *s != '\0'; s += *s == ';') {
        char operation[32], name[64];
        struct entry e = {0};

        if (text_scan(s, "%31s %63s %d %d %lf %d", operation, name, &e.bytes, &e.members, &e.ratio,
                      &e.runs) == 6) {
            if (variant_own(name) != NULL)
                e.own = mpi_t_algorithm_find(operation, variant_own(name));
            else if ((e.algorithm = catalogue_find(operation, name, false)) == NULL)
                e.algorithm = catalogue_find(operation, name, true);
            if ((e.algorithm != NULL || e.own != NULL) && e.ratio > 0 && e.runs > 0)
                correction_add(&e);
        }
        s += strcspn(s, ";");
    }
}
