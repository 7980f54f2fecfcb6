/* Which algorithm a call runs on: by chance, by rules or as it finds out.
 *
 * A choice must be the same on all members of an instance, so it depends only on what MPI makes
 * them agree on: operation, the bytes that all members know, the communicator's identity and the
 * sequence number, and rules that are the same on all ranks (rules.c); an override for a call site is
 * made one for a key (key.c). What only one rank knows (its datatype's layout, MPI_IN_PLACE at the
 * root, a wrong argument) decides nothing.
 */
#include "switch/choice.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "auto/auto.h"
#include "auto/candidates.h"
#include "base/hash.h"
#include "base/operation.h"
#include "choose/key.h"
#include "choose/rules.h"
#include "record/call.h"
#include "record/comm.h"
#include "run/execution.h"
#include "run/forced.h"
#include "run/private.h"
#include "run/problem.h"
#include "run/setting.h"
#include "run/variant.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/schedule.h"

enum { MOST_CANDIDATES = 32 };

static bool random_choice, random_own;
static uint64_t seed;

/* Reads a rule that is none for any operation: chance from a seed. */
bool choice_is_random(const char *text)
{
    unsigned long long number;

    if (sscanf(text, "random %llu", &number) == 1) {
        random_choice = true;
        random_own = strstr(text, " own") != NULL;
        seed = number;
    }
    return random_choice;
}

/* Of the library's own algorithms as well. */
bool choice_is_random_own(void)
{
    return random_own;
}

/* In at most 512 blocks, where all know the bytes: 300 KB in blocks of one byte took minutes where
 * ranks outnumber processors. */
static const struct algorithm *pick_random(struct execution *e, int64_t bytes)
{
    const struct algorithm *found[MOST_CANDIDATES];
    int count = 1; /* place 0 is the library's own */

    for (int i = 0; i < catalogue_count && count < MOST_CANDIDATES; i++)
        if (candidate_fits(catalogue[i], e))
            found[count++] = catalogue[i];
    const uint64_t h = hash_mix(hash_mix(seed, e->call->comm->identity), e->call->sequence);
    const uint64_t which = h % (uint64_t)count;

    const int64_t least = bytes > 0 ? 1 + bytes / 512 : 1;

    e->problem.block_size = h >> 32 & 1 ? 0 : least + (int64_t)(h >> 40 & 0xfff);
    e->problem.order = h >> 52 & 3;
    e->problem.equal_blocks = h >> 54 & 1;
    e->problem.late = (int)((h >> 44 & 0xff) % (uint64_t)e->problem.size);
    return which == 0 ? NULL : found[which];
}

/* One of the library's own, for every fourth call. */
static const char *pick_own(struct execution *e)
{
    const struct communicator *const k = e->call->comm;
    const uint64_t h = hash_mix(hash_mix(seed + 1, k->identity), e->call->sequence);
    const struct own_algorithm *found[MOST_CANDIDATES];
    int count = 0;

    if ((h >> 32 & 3) != 0 || k->obstacle != OBSTACLE_NONE)
        return NULL;
    for (int i = 0; i < setting_own_count() && count < MOST_CANDIDATES; i++)
        if (setting_has(e->call->operation, false) && forced_applies(setting_own_at(i), 0, e))
            found[count++] = setting_own_at(i);
    if (count == 0 || !forced_ready(e, found[h % (uint64_t)count], 0))
        return NULL;
    return e->own->label;
}

/* Of the library's own `e->own` is set already. */
static const struct algorithm *take_candidate(struct execution *e, const struct candidate *c,
                                              const char **label)
{
    if (c == NULL)
        return NULL;
    variant_apply(&c->variant, &e->problem);
    *label = c->variant.label;
    return c->variant.algorithm;
}

/* Where all members can, the library is told this one of its own: execution.own. */
static void take_own(struct execution *e, struct rule *r, const struct own_algorithm *own,
                     const char **label)
{
    struct communicator *const k = e->call->comm;
    const int64_t segment = r->variant.segment;
    const bool applies = forced_applies(own, segment, e);

    if (comm_leads(k))
        atomic_fetch_add(applies ? &r->applied : &r->left_alone, 1);
    if (applies && private_ready(k, e->call->handle) && forced_ready(e, own, segment))
        *label = segment == 0 ? own->label : variant_label(own->label, &r->variant);
}

/* NULL: the library's own. Called by all members. */
const struct algorithm *choice_make(struct execution *e, const char **label)
{
    struct communicator *const k = e->call->comm;
    const struct asked q = {.operation = operation_names[e->call->operation],
                            .bytes = problem_bytes(e),
                            .size = k->size + k->remote_size,
                            .inter = k->inter};

    if (random_choice) {
        /* By the identity, which is agreed with the private communicator. */
        const bool ready = private_ready(k, e->call->handle);

        if (ready && random_own && (*label = pick_own(e)) != NULL)
            return NULL;
        const struct algorithm *const a = ready ? pick_random(e, q.bytes) : NULL;

        *label = a != NULL ? a->name : NULL;
        return a;
    }
    const uint64_t sites = rules_by_site(&q);
    const bool watched = auto_takes(e->call);
    struct key *key = NULL;
    int index = RULE_NONE;

    if (sites != 0 || watched) {
        const uint64_t hash = key_hash(e);

        key = key_find(k, sites != 0 ? hash_mix(hash, sites) : hash, e->call->sequence);
    }
    const bool keyed = key != NULL; /* else memory is short, and no private communicator made */

    if (sites != 0 && private_ready(k, e->call->handle) && keyed)
        index = key_choice(key, e, &q);
    if (index == RULE_NONE)
        index = rules_general(&q);
    struct rule *const r = rule_at(index);
    const struct own_algorithm *const own = r != NULL ? rule_own(r, &q) : NULL;

    if (auto_chooses && watched && keyed)
        return take_candidate(e, auto_choose(e, key, r, &q), label);
    if (watched && keyed)
        auto_watch(e, key);
    if (own != NULL) {
        take_own(e, r, own, label);
        return NULL;
    }
    if (r == NULL)
        return NULL;
    const struct algorithm *const a = rule_algorithm(r, &q);

    variant_apply(&r->variant, &e->problem);
    const bool applies = r->native || (a != NULL && candidate_applies(a, e));

    if (comm_leads(k))
        atomic_fetch_add(applies ? &r->applied : &r->left_alone, 1);
    *label = r->by_paper && a != NULL ? a->name : r->variant.label;
    return applies && !r->native && candidate_fits(a, e) ? a : NULL;
}
