/* Choice of the algorithm of a call: at random, by rules, or by online selection.
 *
 * All members of an instance must make the same choice. So it depends only on values that MPI makes
 * the members agree on: operation, the bytes that all members know, the communicator's identity and
 * the sequence number. Rules are equal on all ranks (rules.c); an override for a call site is
 * converted to an override for a key (key.c). Values that only one rank knows (its datatype's
 * layout, MPI_IN_PLACE at the root, a wrong argument) do not affect the choice.
 */
#include "selection/dispatch/select.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/operation.h"
#include "executor/execution.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"
#include "executor/variant.h"
#include "record/call.h"
#include "record/communicator.h"
#include "schedule/algorithms/catalogue.h"
#include "schedule/schedule.h"
#include "selection/online/auto.h"
#include "selection/online/candidates.h"
#include "selection/rules/key.h"
#include "selection/rules/rules.h"

enum { MOST_CANDIDATES = 32 };

static bool random_choice, random_own;
static uint64_t seed;

/* Parse "random SEED [own]". Returns false for any other rule. */
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

/* Return true if random choice includes the library's algorithms. */
bool choice_is_random_own(void)
{
    return random_own;
}

/* Choose one of mpiprof's algorithms at random, or NULL for native. If all members know the bytes,
 * a message has at most 512 blocks: 300 KB in one-byte blocks took minutes if ranks outnumber
 * processors. */
static const struct algorithm *pick_random(struct execution *e, int64_t bytes)
{
    const struct algorithm *found[MOST_CANDIDATES];
    int count = 1; /* index 0 is the native algorithm */

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

/* Choose one of the library's algorithms, in every fourth call. Returns NULL in the other calls. */
static const char *library_algorithm_pick(struct execution *e)
{
    const struct communicator *const k = e->call->comm;
    const uint64_t h = hash_mix(hash_mix(seed + 1, k->identity), e->call->sequence);
    const struct library_algorithm *found[MOST_CANDIDATES];
    int count = 0;

    if ((h >> 32 & 3) != 0 || private_of(k)->obstacle != OBSTACLE_NONE)
        return NULL;
    for (int i = 0; i < mpi_t_algorithm_count && count < MOST_CANDIDATES; i++)
        if (mpi_t_algorithm_has(e->call->operation, false) &&
            library_algorithm_applies(&mpi_t_algorithms[i], 0, e))
            found[count++] = &mpi_t_algorithms[i];
    if (count == 0 || !library_algorithm_ready(e, found[h % (uint64_t)count], 0))
        return NULL;
    return e->library_algorithm->label;
}

/* Apply a candidate. For a library algorithm `e->own` is already set, and the result is NULL. */
static const struct algorithm *take_candidate(struct execution *e, const struct candidate *c,
                                              const char **label)
{
    if (c == NULL)
        return NULL;
    variant_apply(&c->variant, &e->problem);
    *label = c->variant.label;
    return c->variant.algorithm;
}

/* Request a library algorithm in execution.own, if it applies on all members. */
static void library_algorithm_request(struct execution *e, struct rule *r,
                                      const struct library_algorithm *own, const char **label)
{
    struct communicator *const k = e->call->comm;
    const int64_t segment = r->variant.segment;
    const bool applies = library_algorithm_applies(own, segment, e);

    if (comm_is_leader(k))
        atomic_fetch_add(applies ? &r->applied : &r->skipped, 1);
    if (applies && private_comm_ready(k, e->call->handle) &&
        library_algorithm_ready(e, own, segment))
        *label = segment == 0 ? own->label : variant_label(own->label, &r->variant);
}

/* Return the algorithm of a call, or NULL for the library's routine. Called by all members. */
const struct algorithm *choice_make(struct execution *e, const char **label)
{
    struct communicator *const k = e->call->comm;
    const struct call_properties q = {.operation = operation_names[e->call->operation],
                                      .bytes = problem_bytes(e),
                                      .size = k->size + k->remote_size,
                                      .inter = k->inter};

    if (random_choice) {
        /* The identity is agreed when the private communicator is created. */
        const bool ready = private_comm_ready(k, e->call->handle);

        if (ready && random_own && (*label = library_algorithm_pick(e)) != NULL)
            return NULL;
        const struct algorithm *const a = ready ? pick_random(e, q.bytes) : NULL;

        *label = a != NULL ? a->name : NULL;
        return a;
    }
    const uint64_t sites = rules_site_hash(&q);
    const bool watched = auto_collects(e->call);
    struct key *key = NULL;
    int index = RULE_NONE;

    if (sites != 0 || watched) {
        const uint64_t hash = key_hash(e);

        key = key_find(k, sites != 0 ? hash_mix(hash, sites) : hash, e->call->sequence);
    }
    const bool keyed = key != NULL; /* otherwise memory is short, without a private communicator */

    if (sites != 0 && private_comm_ready(k, e->call->handle) && keyed)
        index = key_choice(key, e, &q);
    if (index == RULE_NONE)
        index = rules_general(&q);
    struct rule *const r = rule_at(index);
    const struct library_algorithm *const own = r != NULL ? rule_library_algorithm(r, &q) : NULL;

    if (auto_chooses && watched && keyed)
        return take_candidate(e, auto_choose(e, key, r, &q), label);
    if (watched && keyed)
        auto_observe(e, key);
    if (own != NULL) {
        library_algorithm_request(e, r, own, label);
        return NULL;
    }
    if (r == NULL)
        return NULL;
    const struct algorithm *const a = rule_algorithm(r, &q);

    variant_apply(&r->variant, &e->problem);
    const bool applies = r->native || (a != NULL && candidate_applies(a, e));

    if (comm_is_leader(k))
        atomic_fetch_add(applies ? &r->applied : &r->skipped, 1);
    *label = r->by_paper && a != NULL ? a->name : r->variant.label;
    return applies && !r->native && candidate_fits(a, e) ? a : NULL;
}
