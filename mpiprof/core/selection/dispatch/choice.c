/* Choice of the algorithm of a call: at random, by rules, by online selection, or by the routine of
 * Faraj et al. (`--switch robust`).
 *
 * All members of an instance must make the same choice. So it depends only on values that MPI makes
 * the members agree on: operation, the bytes that all members know, the communicator's identity and
 * the number of earlier blocking collectives. Rules are equal on all ranks (rules.c); an override
 * for a call site is converted to an override for a key (key.c). Values that only one rank knows
 * (its datatype's layout, MPI_IN_PLACE at the root, a wrong argument) do not affect the choice.
 */
#include "selection/dispatch/select.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/operation.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "executor/variant.h"
#include "schedule/algorithms/catalogue.h"
#include "selection/online/key.h"
#include "selection/rules/rules.h"

enum { MOST_CANDIDATES = 32 };

static bool random_choice, random_own;
static uint64_t seed;

/* Parse "random SEED [own]". Returns false for any other rule. `own`: the choice includes the
 * library's algorithms. */
bool choice_is_random(const char *text, bool *own)
{
    unsigned long long number;

    if (sscanf(text, "random %llu", &number) == 1) {
        random_choice = true;
        random_own = strstr(text, " own") != NULL;
        seed = number;
    }
    *own = random_own;
    return random_choice;
}

/* Choose one of mpiprof's algorithms at random, or NULL for native. If all members know the bytes,
 * a message has at most 512 blocks: 300 KB in one-byte blocks took minutes if ranks outnumber
 * processors. */
static const struct algorithm *pick_random(struct execution *e, int64_t bytes)
{
    const uint64_t h = hash_mix(hash_mix(seed, e->call->comm->identity), e->call->blocking);
    const int64_t least = bytes > 0 ? 1 + bytes / 512 : 1;
    const struct algorithm *fitting[MOST_CANDIDATES] = {NULL}; /* index 0 is native */
    int count = 1;

    for (int i = 0; i < catalogue_count && count < MOST_CANDIDATES; i++)
        if (candidate_fits(catalogue[i], e))
            fitting[count++] = catalogue[i];

    e->problem.block_size = h >> 32 & 1 ? 0 : least + (int64_t)(h >> 40 & 0xfff);
    e->problem.order = h >> 52 & 3;
    e->problem.equal_blocks = h >> 54 & 1;
    e->problem.late = (int)((h >> 44 & 0xff) % (uint64_t)e->problem.size);
    return fitting[h % (uint64_t)count];
}

/* Choose one of the library's algorithms, in every fourth call. Returns NULL in the other calls. */
static const char *library_algorithm_pick(struct execution *e)
{
    const struct communicator *const k = e->call->comm;
    const uint64_t h = hash_mix(hash_mix(seed + 1, k->identity), e->call->blocking);
    const struct library_algorithm *fitting[MOST_CANDIDATES];
    int count = 0;

    if ((h >> 32 & 3) != 0 || private_of(k)->obstacle != OBSTACLE_NONE)
        return NULL;
    for (int i = 0; i < mpi_t_algorithm_count && count < MOST_CANDIDATES; i++)
        if (mpi_t_algorithm_has(e->call->operation, false) &&
            library_algorithm_applies(&mpi_t_algorithms[i], 0, e))
            fitting[count++] = &mpi_t_algorithms[i];
    if (count == 0 || !library_algorithm_ready(e, fitting[h % (uint64_t)count], 0))
        return NULL;
    return e->library_algorithm->label;
}

static const struct algorithm *choose_random(struct execution *e, int64_t bytes, const char **label)
{
    /* The identity is agreed when the private communicator is created. */
    if (!private_comm_ready(e->call->comm, e->call->handle))
        return NULL;
    if (random_own && (*label = library_algorithm_pick(e)) != NULL)
        return NULL;
    const struct algorithm *const a = pick_random(e, bytes);

    *label = a != NULL ? a->name : NULL;
    return a;
}

static const struct algorithm *choose_robust(struct execution *e, const char **label)
{
    if (!robust_instance_applies(e->call)) {
        diagnostics_untreated(e->call->comm);
        return NULL;
    }
    struct key *const key = key_find(e->call->comm, key_hash(e), e->call->blocking);
    const struct candidate *const c = key != NULL ? robust_instance_choose(e, key) : NULL;

    *label = c != NULL ? c->variant.label : NULL;
    return c != NULL ? c->variant.algorithm : NULL;
}

/* Return the algorithm of a rule. For a library algorithm, set `e->library_algorithm` instead. */
static const struct algorithm *choose_by_rule(struct execution *e, struct rule *r,
                                              const struct call_properties *q, const char **label)
{
    struct communicator *const k = e->call->comm;
    const struct algorithm *const a = rule_algorithm(r, q);
    const struct library_algorithm *const own = rule_library_algorithm(r, q);
    const int64_t segment = r->variant.segment;

    variant_apply(&r->variant, &e->problem);
    const bool applies = own != NULL ? library_algorithm_applies(own, segment, e)
                                     : r->native || (a != NULL && candidate_applies(a, e));

    if (comm_is_leader(k))
        atomic_fetch_add(applies ? &r->applied : &r->skipped, 1);
    if (own == NULL) {
        *label = r->by_paper && a != NULL ? a->name : r->variant.label;
        return applies && !r->native && candidate_fits(a, e) ? a : NULL;
    }
    if (applies && private_comm_ready(k, e->call->handle) &&
        library_algorithm_ready(e, own, segment))
        *label = segment == 0 ? own->label : variant_label(own->label, &r->variant);
    return NULL;
}

/* Return the algorithm of a call, or NULL for the library's routine. Called by all members. */
const struct algorithm *choice_make(struct execution *e, const char **label)
{
    struct communicator *const k = e->call->comm;
    const struct call_properties q = {.operation = operation_names[e->call->operation],
                                      .bytes = problem_bytes(e),
                                      .size = k->size + k->remote_size,
                                      .inter = k->inter};

    if (random_choice)
        return choose_random(e, q.bytes, label);
    if (auto_is_robust)
        return choose_robust(e, label);
    const uint64_t sites = rules_site_hash(&q);
    const bool collects = auto_collects(e->call);
    struct key *key = NULL; /* NULL also if memory is short, without a private communicator */
    int index = RULE_NONE;

    if (sites != 0 || collects) {
        const uint64_t hash = key_hash(e);

        key = key_find(k, sites != 0 ? hash_mix(hash, sites) : hash, e->call->blocking);
    }
    if (sites != 0 && private_comm_ready(k, e->call->handle) && key != NULL)
        index = key_choice(key, e, &q);
    if (index == RULE_NONE)
        index = rules_general(&q);
    struct rule *const r = rule_at(index);

    if (auto_chooses && collects && key != NULL) {
        const struct candidate *const c = auto_choose(e, key, r, &q);

        if (c == NULL)
            return NULL;
        variant_apply(&c->variant, &e->problem);
        *label = c->variant.label;
        return c->variant.algorithm; /* NULL for a library algorithm, which auto_choose has set */
    }
    if (collects && key != NULL)
        auto_observe(e, key);
    return r != NULL ? choose_by_rule(e, r, &q, label) : NULL;
}
