/* Rules of the user that override the choice of algorithm. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "callsite/callsite.h"
#include "executor/variant.h"
#include "schedule/schedule.h"

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
    const char *own; /* name of a library algorithm, or NULL */
    bool by_paper;   /* `static`: rabenseifner_protocol.c chooses the algorithm */
    _Atomic uint64_t applied, left_alone; /* instances, counted by the communicator's rank 0 */
};
struct asked { /* properties of a call that all members know */
    const char *operation;
    int64_t bytes; /* negative if unknown */
    int size;
    bool inter;
};
int rules_read(const char *text);
bool rules_only(const char *text);
struct rule *rule_at(int index);
const struct algorithm *rule_algorithm(const struct rule *r, const struct asked *q);
const struct own_algorithm *rule_own(const struct rule *r, const struct asked *q);
const char *rules_first_own(void);
int rules_general(const struct asked *q);
uint64_t rules_by_site(const struct asked *q);
int rules_of_site(const struct asked *q, const struct site *s);
int rules_count(void);
void rules_meet(struct site *s, const char *frames);

/* ---- protocol of a reduction by number of processes and bytes (rabenseifner_protocol.c) */

const char *rabenseifner_protocol(const char *operation, int size, int64_t bytes);
