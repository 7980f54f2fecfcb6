/* Which instances share a choice: key.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "choose/rules.h"
#include "run/execution.h"
#include "run/variant.h"

struct sharing;
struct selection;
struct key {
    uint64_t hash;
    uint32_t used;           /* sequence number of its last instance */
    uint32_t instances;      /* auto.c's count */
    uint32_t choices;        /* key_choice's */
    int agreed;              /* a rule, the same on all members; RULE_NONE: no call site's */
    int override;            /* rank 0: the first rule that names one of its call sites */
    const struct site *site; /* rank 0: the first, and what the others are noted in */
    int site_override;
    struct sharing *sharing;
    struct selection *selection; /* auto.c */
    struct variant
        inherited; /* of a duplicate: what its parent had settled on; no algorithm: nothing */
    int64_t inherited_gain_ns, inherited_price_ns;
};
uint64_t key_hash(const struct execution *e);
struct key *key_find(struct communicator *k, uint64_t hash, uint32_t sequence);
int key_choice(struct key *key, const struct execution *e, const struct asked *q);
struct keys_owner { /* of what keys hold: auto.c */
    void (*forget)(struct key *keys, int count, MPI_Comm comm);
    void (*inherit)(struct key *child, const struct key *parent);
};
void keys_start(const struct keys_owner *owner);
void keys_free(struct communicator *k);
void keys_begin_anew(void);
int keys_collected(struct key **found, struct communicator **owners, int room);
void keys_end(void);
void keys_inherit(struct communicator *child, const struct communicator *parent);
