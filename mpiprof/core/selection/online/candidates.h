/* Candidates of a key: the variants that may run (candidates.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "executor/execution.h"
#include "executor/variant.h"
#include "schedule/schedule.h"

enum { MOST_SAMPLES = 32, NATIVE = 0, NOBODY = 255 };
struct candidate {
    /* without an algorithm: a library algorithm, or the library's default */
    struct variant variant;
    const struct algorithm
        *similar;     /* catalogue algorithm that behaves like this library algorithm */
    bool has_needs;   /* library_algorithm_prepare has created the resources that a run requires */
    bool refused;     /* the resources could not be created */
    int64_t model_ns; /* prediction for this rank alone; 0 if unknown */
    /* model_ns with the learned correction, agreed by all members; 0 if unknown */
    int64_t predicted_ns;
    int64_t samples[MOST_SAMPLES]; /* newest scores of this phase */
    int seen;
    int planned, measured; /* probes of this phase: planned, and measured */
    int tried;             /* instances in all phases */
    int64_t last_ns;       /* median score of the last phase that measured this candidate */
    bool excluded;         /* excluded from this phase's candidate set */
};
enum { LEAST_BLOCK = 1024 };
int candidates_list(struct candidate *list, struct execution *e);
int candidate_changed(struct candidate *list, int *count, int which, const struct variant *wanted);
int64_t candidate_predicted(const struct candidate *c, struct execution *e, bool late);
bool candidate_applies(const struct algorithm *a, const struct execution *e);
bool candidate_fits(const struct algorithm *a, const struct execution *e);
bool candidate_may_run(const struct variant *v, const struct execution *e);
