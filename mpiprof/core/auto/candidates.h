/* What may run for a key: candidates.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "run/execution.h"
#include "run/variant.h"
#include "schedule/schedule.h"

enum { MOST_SAMPLES = 32, NATIVE = 0, NOBODY = 255 };
struct candidate {
    struct variant variant;        /* with no algorithm: one of the library's own, or its choice */
    const struct algorithm *like;  /* of one of the library's own: ours that takes about as long */
    bool has_needs;                /* it has what it needs to run: forced_prepare */
    bool refused;                  /* and can't have it */
    int64_t model_ns;              /* of this rank alone; 0: not known */
    int64_t predicted_ns;          /* what has been learned is in it; 0: not known */
    int64_t samples[MOST_SAMPLES]; /* scores of this phase, the newest ones */
    int seen;                      /* how many there were */
    int asked, got;                /* probes of this lap: planned, and measured */
    int tried;                     /* instances of all phases */
    int64_t last_ns;               /* what it took in the last phase that measured it */
    bool out;                      /* of this phase's field */
};
enum { LEAST_BLOCK = 1024 };
int candidates_list(struct candidate *list, struct execution *e);
int candidate_changed(struct candidate *list, int *count, int which, const struct variant *wanted);
int64_t candidate_predicted(const struct candidate *c, struct execution *e, bool late);
bool candidate_applies(const struct algorithm *a, const struct execution *e);
bool candidate_fits(const struct algorithm *a, const struct execution *e);
bool candidate_may_run(const struct variant *v, const struct execution *e);
