/* Keys: groups of instances that share one choice of algorithm, and their life cycle. */
#pragma once
#include "executor/execution.h"
#include "selection/online/selection.h"
#include "selection/rules/rules.h"

/* ---- keys (key.c) */

struct key {
    uint64_t hash;
    uint32_t used;           /* number of blocking collectives before the last instance */
    uint32_t instances;      /* counted by auto.c */
    uint32_t choices;        /* number of calls of key_choice */
    int agreed;              /* rule that is equal on all members, or RULE_NONE */
    int override;            /* on rank 0, the first rule that names one of its call sites */
    const struct site *site; /* on rank 0, the first call site; diagnostics.c lists other sites */
    int site_override;
    /* robust_instance.c: the members can run other algorithms; they have agreed on that */
    bool can_probe, is_settled;
    struct selection *selection; /* owned by auto.c */
    struct variant inherited;    /* the choice of the parent of a duplicate, or no algorithm */
    int64_t inherited_gain_ns, inherited_price_ns;
};
uint64_t key_hash(const struct execution *e);
struct key *key_find(struct communicator *k, uint64_t hash, uint32_t blocking);
int key_choice(struct key *key, const struct execution *e, const struct call_properties *q);
/* keys_inherit and keys_free are hooks of the recording (recorder.h) */
void keys_inherit(struct communicator *child, const struct communicator *parent);
void keys_free(struct communicator *k);
void keys_discard(void);
void keys_finalize(void);

/* ---- life cycle of a key under `--switch auto` (auto.c) */

/* selection of algorithms is on; `--switch robust` selects instead; recording of arrivals is on */
extern bool auto_chooses, auto_is_robust, auto_is_collecting;
void auto_start(bool chooses, bool robust);
struct selection *auto_make(const struct execution *e, const struct key *key, bool switches);
bool auto_collects(const struct call *c);
const struct candidate *auto_choose(struct execution *e, struct key *key, const struct rule *first,
                                    const struct call_properties *q);
void auto_observe(struct execution *e, struct key *key);
void auto_end(struct call *c);

/* ---- life cycle of a key under `--switch robust` (robust_instance.c) */

bool robust_instance_applies(const struct call *c);
const struct candidate *robust_instance_choose(struct execution *e, struct key *key);
void robust_instance_end(struct call *c);

/* ---- the end of keys, and reductions that outlive their communicator (finalize.c) */

void finalize_free(struct key *keys, int count, MPI_Comm comm);
void finalize_inherit(struct key *child, const struct key *parent);
void finalize_windows(struct selection **list, int count, int64_t deadline);
void finalize_orphans(int64_t deadline);
