/* Rules of the user that override the choice of algorithm, and the final report on selection. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "callsite/callsite.h"
#include "executor/variant.h"

/* ---- rules of the user that override the choice of algorithm (rules.c) */

enum { RULE_NONE = -1 };
struct rule {
    const char *operation, *algorithm;
    struct variant variant; /* its algorithm follows from the operation and the communicator */
    const char *sizes;      /* communicator sizes, 4-8,16-16; NULL for any */
    /* file:line, and its offsets in the program; NULL for any call site */
    const char *site, *ranges;
    int64_t from, to; /* bytes that all members know; to < 0 means no limit */
    bool native;
    const char *library_algorithm;     /* name of a library algorithm, or NULL */
    bool by_paper;                     /* `static`: rabenseifner_protocol.c chooses the algorithm */
    _Atomic uint64_t applied, skipped; /* instances, counted by the communicator's rank 0 */
};
struct call_properties { /* properties of a call that all members know */
    const char *operation;
    int64_t bytes; /* negative if unknown */
    int size;
    bool inter;
};
int rules_read(const char *text);
bool rules_replace(const char *text);
struct rule *rule_at(int index);
const struct algorithm *rule_algorithm(const struct rule *r, const struct call_properties *q);
const struct library_algorithm *rule_library_algorithm(const struct rule *r,
                                                       const struct call_properties *q);
const char *rules_first_library_algorithm(void);
int rules_general(const struct call_properties *q);
uint64_t rules_site_hash(const struct call_properties *q);
int rules_of_site(const struct call_properties *q, const struct site *s);
void rules_match_site(struct site *s, const char *frames);

/* ---- protocol of a reduction by number of processes and bytes (rabenseifner_protocol.c) */

const char *rabenseifner_protocol(const char *operation, int size, int64_t bytes);

/* ---- messages about the selection of algorithms at the end of a run (diagnostics.c) */

struct communicator;
void diagnostics_share(const char *operation, const struct site *first, int first_override,
                       const struct site *other, int override);
void diagnostics_untreated(const struct communicator *k);
void diagnostics_end(void);
