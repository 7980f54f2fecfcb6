/* Keys: which instances share one choice of algorithm, where that depends on the call site.
 *
 * All members of an instance must choose alike, and they may reach it from different call sites:
 *
 *     if rank == 0: comm.bcast(x)        # line 1
 *     else:         x = comm.bcast(None) # line 2
 *
 * So a call site decides nothing by itself. What all members do agree on is the communicator's own
 * history. A key is made from that: communicator, operation, size class, root, and the HISTORY
 * operations before it. Two 8-byte allreduces, one after the all-to-all and one after the
 * broadcast, are two keys; call sites with the same history for ever are one, switch together,
 * and it is said at the end. Of sizes only those count that every member knows.
 *
 * Which call site an override names is as the communicator's rank 0 sees it. On a key's first
 * instance rank 0 broadcasts its choice: four bytes on the private communicator, legal inside a
 * blocking collective. Rank 0 may meet a named call site later than another of the same key; so the
 * choice is told again on the key's 2nd, 4th, 8th, ... instance, which every member counts alike,
 * and whose cost is the logarithm of the number of calls. Of the overrides that rank 0 has met at a
 * key, the one named first holds.
 *
 * The table is bounded, for programs that never repeat themselves: the key that was used longest
 * ago, by sequence number, makes room. All members see the same keys in the same order, so their
 * tables are alike. A table belongs to its communicator, on which no two threads call at once.
 */
#include "choose/key.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "choose/diagnostics.h"
#include "choose/rules.h"
#include "record/call.h"
#include "record/comm.h"
#include "record/site.h"
#include "run/execution.h"
#include "run/problem.h"
#include "schedule/schedule.h"

enum { HISTORY = 3, MOST_KEYS = 128 };

static unsigned epoch; /* changes between collectives, on all ranks alike */
static struct keys *tables;
static const struct keys_owner *owner; /* NULL: nothing is switched */

struct keys {
    struct keys *next, *before; /* of the process: under recorder.lock */
    struct communicator *owner;
    int count;
    unsigned epoch;
    struct key list[MOST_KEYS];
};

void keys_start(const struct keys_owner *given)
{
    owner = given;
}

static void table_link(struct keys *t)
{
    recorder_lock();
    t->next = tables;
    if (tables != NULL)
        tables->before = t;
    tables = t;
    recorder_unlock();
}

static void table_unlink(struct keys *t)
{
    recorder_lock();
    if (t->next != NULL)
        t->next->before = t->before;
    if (t->before != NULL)
        t->before->next = t->next;
    else
        tables = t->next;
    recorder_unlock();
}

/* ---- what makes a key */

/* Exact up to 64 bytes, then by powers of two. */
static uint64_t size_class(int64_t bytes)
{
    return bytes <= 64 ? (uint64_t)(bytes < 0 ? 0 : bytes) : 64 + (uint64_t)log2_ceiling(bytes);
}

static uint64_t counts_class(const int64_t *counts, int members)
{
    int64_t total = 0, largest = 0, zeros = 0;

    for (int i = 0; i < members; i++) {
        total += counts[i];
        largest = counts[i] > largest ? counts[i] : largest;
        zeros += counts[i] == 0;
    }
    const int64_t skew = total > 0 ? largest * members / total : 1; /* max / mean */

    return hash_mix(size_class(total),
                    (uint64_t)(log2_floor(skew > 0 ? skew : 1) * 16 + (int)(8 * zeros / members)));
}

/* Of an execution whose problem has been filled in; the same on all members. */
uint64_t key_hash(const struct execution *e)
{
    const struct communicator *const k = e->call->comm;
    const struct problem *const p = &e->problem;
    const uint64_t past = k->history & ((UINT64_C(1) << 8 * (HISTORY + 1)) - 1); /* and this one */
    uint64_t h = hash_mix(past, (uint64_t)(e->call->root + 1));

    if (!problem_is_known(e))
        return h;                   /* each member knows its own sizes only */
    if (k->inter && k->first_group) /* each side's own bytes, in an order that both can tell */
        return hash_mix(hash_mix(h, size_class(p->bytes)), size_class(p->remote_bytes));
    if (k->inter)
        return hash_mix(hash_mix(h, size_class(p->remote_bytes)), size_class(p->bytes));
    return hash_mix(h, p->counts != NULL ? counts_class(p->counts, p->size) : size_class(p->bytes));
}

/* ---- the table */

static struct key *oldest(struct keys *t, uint32_t now)
{
    struct key *found = &t->list[0];

    for (int i = 1; i < t->count; i++)
        if (now - t->list[i].used > now - found->used)
            found = &t->list[i];
    return found;
}

static void forget(struct key *key, int count)
{
    owner->forget(key, count, MPI_COMM_NULL);
}

/* The entry of a key, made where it is new; all members call this alike. NULL: not even the reserve
 * has memory. */
struct key *key_find(struct communicator *k, uint64_t hash, uint32_t sequence)
{
    struct keys *t = k->keys;

    if (t == NULL) {
        t = k->keys = memory_get(sizeof *t);
        if (t == NULL)
            return NULL;
        t->epoch = epoch;
        t->owner = k;
        table_link(t);
    }
    if (t->epoch != epoch) { /* a study has begun anew */
        forget(t->list, t->count);
        t->count = 0;
        t->epoch = epoch;
    }
    for (int i = 0; i < t->count; i++)
        if (t->list[i].hash == hash) {
            t->list[i].used = sequence;
            return &t->list[i];
        }
    const bool full = t->count == MOST_KEYS;
    struct key *const made = full ? oldest(t, sequence) : &t->list[t->count++];

    if (full)
        forget(made, 1);
    *made =
        (struct key){.hash = hash, .used = sequence, .agreed = RULE_NONE, .override = RULE_NONE};
    return made;
}

/* The private communicator goes with them. */
void keys_free(struct communicator *k)
{
    struct keys *const t = k->keys;

    if (t != NULL)
        table_unlink(t);
    if (owner != NULL)
        owner->forget(t != NULL ? t->list : NULL, t != NULL ? t->count : 0, k->private);
    memory_free(t);
    k->keys = NULL;
}

/* Those of this process whose arrivals are collected, up to `room` of them: communicator by
 * communicator, in an order that is the same on all its members. */
int keys_collected(struct key **found, struct communicator **owners, int room)
{
    int count = 0;

    for (struct keys *t = tables; t != NULL; t = t->next)
        for (int i = 0; i < t->count && count < room; i++)
            if (t->list[i].selection != NULL) {
                owners[count] = t->owner;
                found[count++] = &t->list[i];
            }
    return count;
}

/* In MPI_Finalize: communicators go with the library. */
void keys_end(void)
{
    for (struct keys *t = tables; t != NULL; t = t->next)
        forget(t->list, t->count);
}

/* A duplicate begins with what its parent has settled on: communicators that live shortly would
 * never find out by themselves. All members duplicate at the same point of the parent's order. */
void keys_inherit(struct communicator *child, const struct communicator *parent)
{
    const struct keys *const from = parent->keys;

    if (from == NULL || from->epoch != epoch || child->keys != NULL ||
        (child->keys = memory_get(sizeof *child->keys)) == NULL)
        return;
    child->keys->epoch = epoch;
    child->keys->owner = child;
    table_link(child->keys);
    for (int i = 0; i < from->count; i++) {
        struct key *const made = &child->keys->list[child->keys->count];

        *made =
            (struct key){.hash = from->list[i].hash, .agreed = RULE_NONE, .override = RULE_NONE};
        owner->inherit(made, &from->list[i]);
        child->keys->count += made->inherited.algorithm != NULL;
    }
}

/* From here on all keys are new. */
void keys_begin_anew(void)
{
    epoch++;
}

/* ---- choosing */

/* Rank 0: which rule names the call site? */
static void listen(struct key *key, const struct execution *e, const struct asked *q)
{
    const struct site *const s = call_site(e->call);
    const int override = rules_of_site(q, s);

    if (override != RULE_NONE && (key->override == RULE_NONE || override < key->override))
        key->override = override;
    if (key->site == NULL) {
        key->site = s;
        key->site_override = override;
    } else if (key->site != s && key->override != RULE_NONE) {
        key->sharing = diagnostics_share(key->sharing, q->operation, key->site, key->site_override,
                                         s, override);
    }
}

/* The rule that the call sites of this key agree on; RULE_NONE: none. The private communicator is
 * there. Called by all members. */
int key_choice(struct key *key, const struct execution *e, const struct asked *q)
{
    const struct communicator *const k = e->call->comm;

    key->choices++;
    if (comm_leads(k))
        listen(key, e, q);
    if (is_power_of_two(key->choices)) {
        int32_t told = key->override;

        if (pmpi.Bcast(&told, sizeof told, MPI_BYTE, 0, k->private) != MPI_SUCCESS)
            told = RULE_NONE;
        key->agreed = told;
    }
    return key->agreed;
}
