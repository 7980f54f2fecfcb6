/* Keys: groups of instances that share one choice of algorithm, and their final report. */
#pragma once
#include "executor/execution.h"
#include "selection/rules/rules.h"

/* ---- keys: groups of instances that share one choice of algorithm (key.c) */

struct sharing;
struct selection;
struct key {
    uint64_t hash;
    uint32_t used;           /* sequence number of the last instance */
    uint32_t instances;      /* counted by auto.c */
    uint32_t choices;        /* number of calls of key_choice */
    int agreed;              /* rule that is equal on all members, or RULE_NONE */
    int override;            /* on rank 0, the first rule that names one of its call sites */
    const struct site *site; /* on rank 0, the first call site; `sharing` lists the further ones */
    int site_override;
    struct sharing *sharing;
    struct selection *selection; /* owned by auto.c */
    struct variant inherited;    /* the choice of the parent of a duplicate, or no algorithm */
    int64_t inherited_gain_ns, inherited_price_ns;
};
uint64_t key_hash(const struct execution *e);
struct key *key_find(struct communicator *k, uint64_t hash, uint32_t sequence);
int key_choice(struct key *key, const struct execution *e, const struct call_properties *q);
struct keys_owner { /* callbacks of the owner of `selection`, auto.c */
    void (*forget)(struct key *keys, int count, MPI_Comm comm);
    void (*inherit)(struct key *child, const struct key *parent);
};
void keys_start(const struct keys_owner *owner);
void keys_free(struct communicator *k);
void keys_discard(void);
int keys_collected(struct selection **list, int room);
void keys_end(void);
void keys_inherit(struct communicator *child, const struct communicator *parent);

/* ---- messages about the selection of algorithms at the end of a run (diagnostics.c) */

struct sharing *diagnostics_share(struct sharing *s, const char *operation,
                                  const struct site *first, int first_override,
                                  const struct site *other, int override);
void diagnostics_end(void);
