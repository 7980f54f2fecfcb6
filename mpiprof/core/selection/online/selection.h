/* Selector state of one key, its candidates, and the decisions on it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "executor/execution.h"
#include "executor/variant.h"
#include "selection/online/arrival.h"

/* ---- candidates of a key: the variants that may run (candidates.c) */

enum { MOST_SAMPLES = 32, LEAST_BLOCK = 1024, NATIVE = 0, NOBODY = 255 };
struct candidate {
    struct variant variant;
    /* catalogue algorithm that behaves like this library algorithm */
    const struct algorithm *similar;
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
int candidates_list(struct candidate *list, struct execution *e);
int candidates_named(struct candidate *list, const struct execution *e, const char *const *names,
                     int count);
int candidate_changed(struct candidate *list, int *count, int which, const struct variant *wanted);
/* Arrivals of the last rank after the first one: within a message time, later, or later than the
 * operation takes */
enum arrival_pattern { ARRIVALS_BALANCED, ARRIVALS_IMBALANCED, ARRIVALS_LATE };
int64_t candidate_predicted(const struct candidate *c, struct execution *e,
                            enum arrival_pattern pattern);
bool candidate_applies(const struct algorithm *a, const struct execution *e);
bool candidate_fits(const struct algorithm *a, const struct execution *e);
bool candidate_may_run(const struct variant *v, const struct execution *e);

/* ---- selector state of one key. Each member structure is written by one file only */

enum state { STATE_NONE, STATE_OBSERVE, STATE_PROBE, STATE_CHOSEN };
enum news { NEWS_PHASE, NEWS_TRIALS, NEWS_CHOICE };
struct event {
    enum news what;
    int current;
    enum state state;
    int64_t instance; /* of the key, at the event */
    const char *why;
};
struct current_choice { /* the candidate that a key currently runs (current_choice.c) */
    enum state state;
    int current;            /* candidate that runs in instances without a probe */
    bool abandoned;         /* permanently abandoned: recording is too expensive or unsafe */
    struct event events[8]; /* changes that key_log.c has not reported yet */
    int event_count;
};

struct reference_instances { /* reference instances, with which new windows are compared */
    int64_t scores[MOST_SAMPLES], worsts[MOST_SAMPLES];
    int latest[MOST_SAMPLES];
    int count;
};

struct observed {                 /* results of windows (observe.c) */
    int64_t native_ns;            /* newest measured score of the library's default */
    int64_t elapsed_ns, worst_ns; /* medians of the newest window */
    int64_t after_ns;             /* median time after the last arrival, newest window */
    int64_t saved_ns, lost_ns;    /* saved by selection, lost by probing */
    int64_t private_ns;           /* creation time of the private communicator */
    int64_t latency_ns;           /* message time while all members send; 0 until measured */
};

struct window_cost {     /* cost of recording (window_length.c) */
    int64_t costs_ns[3]; /* reduction times of the newest windows */
    int costs;
    int strikes; /* consecutive windows in which the reductions made ranks wait */
};

struct phases { /* phases of the arrival pattern (decide.c) */
    int number;
    int before; /* candidate that ran before this phase's probing */
    /* in instances: minimum distance of two phases, earliest start of the next one */
    int64_t patience, next;
    struct reference_instances reference;
    int moved; /* consecutive windows that differ from the reference */
    /* reason for the next phase, which starts when `next` allows; NULL if none is due */
    const char *due;
};

struct model {            /* prediction model (candidate_set.c) */
    double factor, prior; /* measured time / predicted time: now, and at the start of the phase */
    int measured;         /* candidates of this phase that `factor` includes */
    double noise;         /* relative noise of one score */
    double least;         /* upper bound on the time of the best candidate */
};

struct probing {           /* probing (probe.c) */
    int late;              /* rank that arrives last in this phase; -1 if none does consistently */
    bool final;            /* only the best candidate and its rival are left */
    int limit, probes;     /* in this phase: maximum, and planned so far */
    int later_probes, ran; /* planned in later phases; run in all phases */
    int stalled;           /* consecutive windows without budget for a probe */
    bool short_of_budget;  /* the newest plan lacked budget for some probes */
    int64_t in_flight_ns[2]; /* possible loss of planned probes, not yet in the budget */
    uint8_t plan[LONGEST_WINDOW], next[LONGEST_WINDOW]; /* per position: a candidate, or NOBODY */
};

/* Measurements of `--switch robust` (robust_routine.c). `sums` and `missed` belong to one member. */
enum { ROBUST_RUNS = 10, ROBUST_ALGORITHMS = 8 };
struct robust {
    int measuring, runs;              /* algorithm that is being probed, and its probes so far */
    int64_t sums[ROBUST_ALGORITHMS];  /* ns by algorithm; in state chosen: of a period */
    bool missed[ROBUST_ALGORITHMS];   /* the library's algorithm ran in some instance instead */
    int64_t means[ROBUST_ALGORITHMS]; /* agreed times in ns; 0 if unknown */
    /* length of the period, its instances so far, and skipped instances before it */
    int period, monitored, skipped;
};

struct key_log; /* facts for the trace (key_log.h); never input to a decision */

struct selection {
    struct arrivals *arrivals;
    bool switches;     /* selection is allowed; otherwise arrivals are only recorded */
    bool is_robust;    /* robust_routine.c decides, not decide.c */
    int64_t instances; /* counted equally on all members */
    int64_t began_ns;  /* creation time on this member's clock; members agree through EXTRA_WALL */
    struct problem problem; /* first instance: alpha and the group sizes */
    struct candidate list[MOST_LIST];
    int count;
    bool listed; /* the list of candidates is complete */
    struct current_choice choice;
    struct observed observed;
    struct window_cost window_cost;
    struct phases phases;
    struct model model;
    struct probing probing;
    struct robust robust;
    struct key_log *log;
};

/* ---- current choice of a key (current_choice.c) */

void current_choice_start(struct selection *s);
void current_choice_run_on(struct selection *s, int which);
void current_choice_probe(struct selection *s, const char *why);
void current_choice_choose(struct selection *s, int which, const char *why);
void current_choice_conclude(struct selection *s, int which, const char *why);
void current_choice_abandon(struct selection *s);
bool current_choice_has(const struct selection *s, enum news what);
void current_choice_clear_events(struct selection *s);

/* ---- state machine of a key: observe, probe, chosen (decide.c) */

void decide(struct selection *s);
void decide_from(struct selection *s, int which, const char *why);

/* ---- evaluation of a reduced window (observe.c) */

void observe_loss(struct selection *s, int64_t ns);
void observe_window(struct selection *s);

/* ---- scheduling of probes, and the test that decides the winner (probe.c) */

void probe_start(struct selection *s);
int probe_begin(struct selection *s, int limit, int late);
bool probe_step(struct selection *s);
void probe_plan(struct selection *s, bool may);
int probe_candidate_at(struct selection *s, int position);
void probe_refuse(struct selection *s, int i);
void probe_assign(struct selection *s, int first);
bool probe_waits(const struct selection *s);

/* ---- time estimates of the candidates, and the set that may still contain the best
 * (candidate_set.c) */

int64_t candidate_set_estimate(const struct selection *s, int i);
double candidate_set_excess(const struct selection *s, int i);
bool candidate_set_is_waiting(const struct selection *s, int i);
bool candidate_set_contains(const struct selection *s, int i);
int candidate_set_begin(struct selection *s);
void candidate_set_correct(struct selection *s);
bool candidate_set_extend_blocks(struct selection *s, int best);

/* ---- robust statistics of scores (rank_test.c) */

int64_t rank_test_median_of(const int64_t *values, int count);
int64_t rank_test_median_spaced(const int64_t *first, size_t stride, int count);
int rank_test_samples(const struct candidate *c);
int64_t rank_test_median(const struct candidate *c);
int64_t rank_test_known(const struct candidate *c);
int64_t rank_test_spread_of(const int64_t *values, int count);
int64_t rank_test_default_time(const struct selection *s);
int64_t rank_test_spread(const struct candidate *c);
bool rank_test_better(const struct candidate *a, const struct candidate *b, double z, int percent);

/* ---- the routine of Faraj et al., in place of decide.c and probe.c (robust_routine.c) */

void robust_routine_start(struct selection *s);
int robust_routine_candidate(const struct selection *s);
bool robust_routine_note(struct selection *s, bool ran, int64_t elapsed_ns);
int robust_routine_sums(const struct selection *s, struct sum_max *sums);
void robust_routine_decide(struct selection *s, const struct sum_max *all);

/* ---- length of a key's windows (window_length.c) */

bool window_length_runs_ahead(const struct arrivals *w);
void window_length_set(struct selection *s);

/* ---- time budget of the process for probing, and the start of a key's first window (budget.c) */

/* probing may lose 1/50 of the time in collectives, and 1/50 of each key's time */
enum { LOSS_SHARE = 50 };
void budget_start(void);
void budget_add_time(int64_t ns);
int64_t budget_left(void);
void budget_add_loss(int64_t ns);
void budget_grant(int64_t ns);
int budget_gap(const struct communicator *k, const struct problem *p, double each_ns);
double budget_least_time(const struct execution *e);

/* ---- measured corrections of the model, for later keys and later jobs (model_correction.c) */

void model_correction_start(void);
double model_correction_factor(const struct variant *v, const struct algorithm *like, int64_t bytes,
                               int members);
void model_correction_note(const struct selection *s);

/* ---- in-situ statistics of call sites in the log (statistics.c) */

void statistics_add_window(const struct selection *s);
