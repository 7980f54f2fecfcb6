/* Rules of the user that select an algorithm for an operation or for a call site.
 *
 * The launcher checks the rules and passes them in MPIPROF_SWITCH. trace_agreement.c ensures that
 * the text is equal on all ranks. The rules are read once and are then constant, except for
 * counters. A rule that names a call site precedes rules that name only an operation. Among rules
 * of equal rank the first one applies.
 *
 *   OPERATION VARIANT FROM TO [SIZES SITE RANGES];...     or random SEED
 *
 *   OPERATION   name, or * for any operation
 *   VARIANT     as in variant.c, or `static` for reductions (rabenseifner_protocol.c)
 *   FROM, TO    bytes that all members know; TO -1 for no limit
 *   SIZES       communicator sizes, 4-8,16-16 or *
 *   SITE        file:line or *; bytes that would end a word are percent-encoded
 *   RANGES      offsets from-to of the line in the program, or * for a line of a Python file
 *
 * Threads: called by any thread. Counters are atomic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/recorder.h"
#include "executor/library_algorithm.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/rules/rules.h"

enum { MOST_RULES = 4096, NAME_BYTES = 64, VARIANT_BYTES = 200, ANY_RULE = -2 };

static struct rule *rules;
static int rule_count;
static int only = ANY_RULE; /* in a study: the only active rule, or RULE_NONE */

/* ---- reading */

/* Return the next word, decoded, or NULL for * or at the end. `text` and `rest` as in strtok_r. */
static char *word_read(char *text, char **rest)
{
    const char *s = strtok_r(text, " ", rest);
    char *const copy = s != NULL && strcmp(s, "*") != 0 ? memory_copy_text(s) : NULL, *to = copy;
    unsigned byte;

    if (copy == NULL)
        return NULL;
    while (*s != '\0') {
        const bool encoded = *s == '%' && sscanf(s + 1, "%2x", &byte) == 1;

        *to++ = encoded ? (char)byte : *s;
        s += encoded ? 3 : 1;
    }
    *to = '\0';
    return copy;
}

static bool rule_read(struct rule *r, const char *line)
{
    char operation[NAME_BYTES], variant[VARIANT_BYTES], algorithm[NAME_BYTES], *rest = NULL;
    long long from, to;
    int length = 0;

    *r = (struct rule){0};
    if (sscanf(line, " %63s %199s %lld %lld%n", operation, variant, &from, &to, &length) < 4 ||
        !variant_read(&r->variant, variant, algorithm, sizeof algorithm))
        return false;
    char *const words = memory_copy_text(line + length);

    r->operation = memory_copy_text(operation);
    r->algorithm = memory_copy_text(algorithm);
    if (words == NULL || r->operation == NULL || r->algorithm == NULL)
        return false;
    r->from = from;
    r->to = to;
    r->native = strcmp(algorithm, "native") == 0;
    r->library_algorithm = variant_own(r->algorithm);
    r->by_paper = strcmp(algorithm, "static") == 0;
    r->sizes = word_read(words, &rest);
    r->site = word_read(NULL, &rest);
    r->ranges = word_read(NULL, &rest);
    memory_free(words);
    return true;
}

/* Read the rules. Returns their number. */
int rules_read(const char *text)
{
    char *const copy = memory_copy_text(text), *rest = NULL;

    rules = memory_allocate(MOST_RULES * sizeof *rules);
    if (copy == NULL || rules == NULL)
        return 0;
    for (char *line = strtok_r(copy, ";", &rest); line != NULL && rule_count < MOST_RULES;
         line = strtok_r(NULL, ";", &rest)) {
        if (!rule_read(&rules[rule_count], line))
            break;
        recorder.by_site |= rules[rule_count++].site != NULL;
    }
    memory_free(copy);
    return rule_count;
}

/* Activate only this rule, or none if the text is empty. Earlier rules stay in memory, because
 * records refer to their labels. */
bool rules_replace(const char *text)
{
    only = RULE_NONE;
    if (*text == '\0')
        return true;
    if (rules == NULL && (rules = memory_allocate(MOST_RULES * sizeof *rules)) == NULL)
        return false;
    if (rule_count == MOST_RULES || !rule_read(&rules[rule_count], text))
        return false;
    struct rule *const r = &rules[rule_count];

    for (only = 0; only < rule_count; only++)
        if (strcmp(rules[only].operation, r->operation) == 0 &&
            rules[only].variant.label == r->variant.label)
            break;
    if (only == rule_count) {
        rule_count++;
    } else {
        memory_free((char *)r->operation);
        memory_free((char *)r->algorithm);
    }
    return true;
}

/* Return a rule, or NULL if there is no such rule. */
struct rule *rule_at(int index)
{
    return index >= 0 && index < rule_count ? &rules[index] : NULL;
}

/* ---- search for a rule */

static bool in_ranges(const char *ranges, int64_t value)
{
    long long first, last;
    int length;

    for (; sscanf(ranges, "%lld-%lld%n", &first, &last, &length) == 2; ranges++) {
        if (first <= value && value <= last)
            return true;
        ranges += length;
        if (*ranges != ',')
            break;
    }
    return false;
}

/* Return the catalogue algorithm that a rule selects for a call, or NULL. */
const struct algorithm *rule_algorithm(const struct rule *r, const struct call_properties *q)
{
    const char *const name =
        r->by_paper ? rabenseifner_protocol(q->operation, q->size, q->bytes) : r->algorithm;

    return r->native || name == NULL ? NULL : catalogue_find(q->operation, name, q->inter);
}

/* Return the library algorithm that a rule selects, or NULL. Only for intra-communicators. */
const struct library_algorithm *rule_library_algorithm(const struct rule *r,
                                                       const struct call_properties *q)
{
    return r->library_algorithm == NULL || q->inter
               ? NULL
               : mpi_t_algorithm_find(q->operation, r->library_algorithm);
}

const char *rules_first_library_algorithm(void)
{
    for (int i = 0; i < rule_count; i++)
        if (rules[i].library_algorithm != NULL)
            return rules[i].variant.label;
    return NULL;
}

/* Return true if a rule matches a call and its algorithm exists for this type of communicator. */
static bool applies_to(const struct rule *r, const struct call_properties *q)
{
    if (strcmp(r->operation, "*") != 0 && strcmp(r->operation, q->operation) != 0)
        return false;
    if ((r->from > 0 && q->bytes < r->from) || (r->to >= 0 && (q->bytes < 0 || q->bytes > r->to)))
        return false;
    if (r->sizes != NULL && !in_ranges(r->sizes, q->size))
        return false;
    return r->native || rule_algorithm(r, q) != NULL || rule_library_algorithm(r, q) != NULL;
}

/* Return the first rule for the operation without a call site, or RULE_NONE. */
int rules_general(const struct call_properties *q)
{
    for (int i = 0; i < rule_count; i++)
        if ((only == ANY_RULE || only == i) && rules[i].site == NULL && applies_to(&rules[i], q))
            return i;
    return RULE_NONE;
}

/* Return a hash of the rules that may apply depending on the call site. It is equal on all members,
 * and 0 without such rules. */
uint64_t rules_site_hash(const struct call_properties *q)
{
    uint64_t h = 0;

    for (int i = 0; recorder.by_site && i < rule_count; i++)
        if (rules[i].site != NULL && applies_to(&rules[i], q))
            h = hash_mix(h + 1, (uint64_t)i);
    return h;
}

/* Return the first rule that names a call site, or RULE_NONE. */
int rules_of_site(const struct call_properties *q, const struct site *s)
{
    for (const int *i = s->overrides; i != NULL && *i != RULE_NONE; i++)
        if (applies_to(&rules[*i], q))
            return *i;
    return RULE_NONE;
}

/* ---- call sites; called for each new call site, under recorder.lock */

/* Match md.py:88, a/md.py:88 and /a/md.py:88 with {"file": "/a/md.py", "line": 88, ... */
static bool names_python(const struct rule *r, const char *frame)
{
    static const char head[] = "{\"file\": \"", middle[] = "\", \"line\": ";
    const char *const colon = strrchr(r->site, ':');
    const char *const end = strstr(frame, middle);

    if (colon == NULL || end == NULL || strncmp(frame, head, sizeof head - 1) != 0 ||
        atoi(end + sizeof middle - 1) != atoi(colon + 1))
        return false;
    const char *const file = frame + sizeof head - 1;
    const size_t length = (size_t)(colon - r->site);

    if ((size_t)(end - file) < length || strncmp(end - length, r->site, length) != 0)
        return false;
    return end - length == file || end[-(ptrdiff_t)length - 1] == '/' || r->site[0] == '/';
}

/* Match {"module": "/a/program", "offset": 4711, ... by its offset in the program */
static bool names_native(const struct rule *r, const char *frame)
{
    static const char middle[] = "\", \"offset\": ";
    const char *const end = strstr(frame, middle);

    return r->ranges != NULL && end != NULL && strncmp(frame, "{\"module\"", 9) == 0 &&
           callsite_is_of_program(frame) && in_ranges(r->ranges, atoll(end + sizeof middle - 1));
}

void rules_match_site(struct site *s, const char *frame)
{
    int *const matching = memory_allocate(((size_t)rule_count + 1) * sizeof *matching);
    int count = 0;

    if (matching == NULL)
        return;
    for (int i = 0; i < rule_count; i++)
        if (rules[i].site != NULL &&
            (names_python(&rules[i], frame) || names_native(&rules[i], frame)))
            matching[count++] = i;
    matching[count] = RULE_NONE;
    s->overrides = matching;
}
