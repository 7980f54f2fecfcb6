/* Choosing an algorithm while the program runs: what the parts share.
 *
 *   auto.c        a key's life: which of its instances are watched, and what each runs on
 *   ending.c      the end of keys
 *   pairs.c       sums and maxima over all ranks, in one reduction
 *   arrival.c     windows of instances, and their statistics over all ranks
 *   candidates.c  what may run for a key, and what the schedules themselves predict
 *   decide.c      observe, probe, hold: a pure function of the statistics
 *   probe.c       laps of candidates, and who wins
 *   noise.c       what noise allows to say
 *   budget.c      what probing may lose, and when a key's first window begins
 *   statistics.c  what is kept of call sites in the log
 *   explain.c     what was tried and why, for people and for the trace
 *
 * Everything here that decides is the same on all members of a communicator: it is made of the
 * order of its operations, of the sizes that all know, and of numbers that were reduced over all.
 */
#pragma once
#include "switch.h"

extern bool watching; /* calls are looked at: auto.c */

/* ---- pairs.c */

struct pair {
    int64_t sum, most;
};
bool pairs_open(void);
void pairs_close(void);
void pairs_reduce(const struct pair *mine, struct pair *all, int count, MPI_Comm comm,
                  MPI_Request *request);

/* ---- arrival.c */

enum semantics { SYNCHRONISES, FROM_ROOT, TO_ROOT, OTHERWISE };
enum { LONGEST_WINDOW = 256, MOST_LIST = 16 };

/* What travels with the statistics, as the maximum over the members. */
enum extra {
    EXTRA_FAILED,  /* 1: an operation on this communicator has failed; 2: memory is short */
    EXTRA_BUDGET,  /* minus what probing may still lose */
    EXTRA_COST,    /* of the last window's reductions */
    EXTRA_WAITED,  /* of that, waiting for other members */
    EXTRA_CLOCK,   /* the bound on the clocks' error */
    EXTRA_STALE,   /* it has grown since the clocks were compared */
    EXTRA_WALL,    /* since MPI_Init */
    EXTRA_PRIVATE, /* minus what making the private communicator took: some waited in it */
    EXTRA_MESSAGE, /* minus what a message of a small reduction takes */
    EXTRAS
};

struct sample {             /* one instance, over all members; ns */
    int64_t first, last;    /* arrivals, on the first node's clock */
    int64_t average, worst; /* imbalance */
    int64_t elapsed;        /* mean over the members */
    int64_t score;          /* mean exit minus the earliest that the operation allows */
    int64_t wait;           /* sum over the members */
    int latest;             /* the member that came last */
    int candidate;
    int planned; /* the candidate that was to be probed, or NOBODY */
};

struct moment { /* one instance, on this rank */
    int64_t arrival, exit;
    struct family *family;
    int candidate;
    int planned; /* the candidate that was to be probed, or NOBODY */
};

struct arrivals {
    enum semantics semantics;
    int members, member;  /* of the private communicator */
    bool root;            /* this member is */
    int length;           /* of the window that is being filled */
    int next_length, gap; /* of the one after it, and the instances before that */
    int position;         /* < 0: in the gap */
    int room;
    struct moment *now, *before;  /* what is being filled, what is being reduced */
    int count;                    /* of `before` */
    struct sample *results;       /* of `before`, when its reductions are done */
    struct pair *mine, *all;      /* what is reduced */
    int64_t extras[EXTRAS];       /* mine, then that of all */
    int64_t predicted[MOST_LIST]; /* of each candidate: mine, then of all (candidates.c) */
    bool late;                    /* the last one's time counts, who may be any: so the mean does */
    MPI_Request request;
    int stage, since, cycle; /* the reduction under way, instances since the first, and until due */
    int64_t cost_ns, waited_ns;
};

struct arrivals *arrivals_make(enum semantics semantics, int members, int member, bool root,
                               int length);
void arrivals_free(struct arrivals *w);
void arrivals_note(struct arrivals *w, const struct moment *m);
bool arrivals_full(const struct arrivals *w);
bool arrivals_step(struct arrivals *w, MPI_Comm comm);
void arrivals_next(struct arrivals *w, int length, int gap);
bool arrivals_extend(struct arrivals *w);
void arrivals_begin(struct arrivals *w, MPI_Comm comm);
bool arrivals_pass(struct arrivals *const *all, const MPI_Comm *comms, int count, int64_t deadline);
void arrivals_drop(struct arrivals **all, int count, MPI_Comm comm);
void arrivals_release(void);
bool arrivals_left(void);

/* ---- candidates.c */

enum { MOST_SAMPLES = 32, NATIVE = 0, NOBODY = 255 };
struct candidate {
    const struct algorithm *algorithm; /* NULL: the library's own */
    const char *label;                 /* NULL: the library's own */
    int64_t block_size, predicted_ns;  /* 0: not known */
    int order;                         /* of a ring */
    int64_t samples[MOST_SAMPLES];     /* scores of this phase, the newest ones */
    int seen;                          /* how many there were */
    int asked, got;                    /* probes of this lap: planned, and measured */
    int tried;                         /* instances of all phases */
    int64_t last_ns;                   /* what it took in the last phase that measured it */
    bool out;                          /* of this phase's field */
};
enum { LEAST_BLOCK = 1024 };
int candidates_list(struct candidate *list, struct execution *e);
int candidate_resized(struct candidate *list, int *count, int which, int64_t block_size);
int64_t candidate_predicted(const struct candidate *c, struct execution *e, bool late);
bool candidate_applies(const struct algorithm *a, const struct execution *e);
bool candidate_fits(const struct algorithm *a, const struct execution *e);
const char *label_intern(const char *text);

/* ---- decide.c */

enum state { STATE_NONE, STATE_OBSERVE, STATE_PROBE, STATE_HOLD };
struct typical { /* instances that what is new is compared with */
    int64_t scores[MOST_SAMPLES], worsts[MOST_SAMPLES];
    int latest[MOST_SAMPLES];
    int count;
};
struct selection {
    struct arrivals *arrivals;
    enum state state;
    bool listed;   /* candidates are known */
    bool switches; /* the key may be switched; else only watched */
    bool left;     /* for good: it is not worth watching, or not safe */
    int current;   /* what runs when nothing is probed */
    int before;    /* what ran before this phase's probing */
    int rival;     /* of the best one, in a duel */
    uint8_t plan[LONGEST_WINDOW], next[LONGEST_WINDOW]; /* by position: a candidate, or NOBODY */
    struct candidate list[MOST_LIST];
    int count;
    int phase, lap, field;        /* candidates beside the library's own, in this phase */
    int climbs;                   /* laps of this phase that were for block sizes */
    int limit, probes;            /* of this phase, planned */
    int later_probes, all_probes; /* of all phases but the first, planned; of all that have run */
    int64_t instances;            /* that all members have counted */
    int64_t patience, next_phase; /* no new phase before that instance */
    struct typical reference;
    int moved;            /* windows in a row that are unlike the reference */
    const char *due;      /* why a new phase is, as soon as patience allows it; NULL: none is */
    int stalled;          /* windows of this lap that had no budget for probes */
    bool short_of_budget; /* for some that the newest plan would have had */
    int strikes;          /* windows in a row in which the statistics made ranks wait */
    int64_t costs_ns[3];  /* of the newest windows' reductions */
    int costs;
    const char *why;
    int64_t native_ns, elapsed_ns, worst_ns; /* medians, of the newest window */
    int64_t saved_ns, lost_ns;
    int64_t in_flight_ns[2]; /* what planned probes may lose, beyond what is in the budget */
    int64_t private_ns;      /* what making a private communicator takes */
    int64_t latency_ns;      /* of a message while all members send; 0: not known yet */
    struct problem problem;  /* of the first instance: alpha, and how many members there are */
    /* for people */
    uint64_t key;
    const struct communicator *comm;
    const struct site *sites[4];
    int site_count, root, operation;
    int64_t bytes, message_ns;
    bool known;          /* the bytes, to all members */
    bool written;        /* to selection.jsonl */
    struct text history; /* when it changed and why, in words */
};
void decide(struct selection *s);

enum { PRIVATE_TREES = 8 }; /* reductions and gathers of few bytes that make a communicator */

/* How long one of them takes, by the link that MPI_Init has measured. */
static inline double tree_ns(const struct problem *p)
{
    return p->alpha * log2_ceiling(p->size + p->remote_size);
}

/* ---- probe.c */

int probe_field(struct selection *s);
void probe_lap(struct selection *s);
void probe_step(struct selection *s);
void probe_plan(struct selection *s);
void probe_take(struct selection *s, int first);
bool probe_waits(const struct selection *s);
void probe_run_on(struct selection *s, int which);
void probe_conclude(struct selection *s, int choice, const char *why);

/* ---- noise.c */

int64_t median_of(const int64_t *values, int count);
int candidate_samples(const struct candidate *c);
int64_t candidate_median(const struct candidate *c);
int64_t candidate_known(const struct candidate *c);
int64_t spread_of(const int64_t *values, int count);
int64_t usual_score(const struct selection *s);
int64_t candidate_spread(const struct candidate *c);
bool smaller(const int64_t *a, int n, const int64_t *b, int m, double z);
bool better(const struct candidate *a, const struct candidate *b, double z, int percent);

/* ---- budget.c */

enum { LOSS_SHARE = 50 }; /* a fiftieth of the time in collectives; of a key, of its own */
void ledger_open(void);
void ledger_spend(int64_t ns);
int64_t ledger_budget(void);
void ledger_lose(int64_t ns);
void ledger_grant(int64_t ns);
int gap_before(const struct communicator *k, const struct problem *p, double each_ns);
double least_time(const struct execution *e);

/* ---- statistics.c */

void statistics_keep(const struct selection *s, const struct communicator *k);

/* ---- explain.c */

void explain_start(void);
void explain_key(struct selection *s, const struct execution *e);
void explain_site(struct selection *s, const struct site *site);
void explain_phase(struct selection *s);
void explain_trials(struct selection *s);
void explain_choice(struct selection *s);
void explain_end(struct selection *s);
void explain_finish(MPI_Comm comm);
