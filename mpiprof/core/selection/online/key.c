/* Keys: groups of instances that share one choice of algorithm, where the choice depends on the
 * call site.
 *
 * All members of an instance must make the same choice, but may reach it from different call sites:
 *
 *    if rank == 0: comm.bcast(x)        # line 1
 *    else:         x = comm.bcast(None) # line 2
 *
 * So the call site cannot be part of a key. All members agree on the history of the communicator: its
 * blocking operations, because libraries forgive other orders of nonblocking ones. A key consists of
 * the communicator, the operation, the size class, the root, and the HISTORY preceding operations. An
 * 8-byte allreduce after an all-to-all and one after a broadcast have different keys. Call sites that
 * always have the same history share a key and its choice, which is reported at the end. Only sizes
 * that every member knows are part of a key.
 *
 * An override names a call site of the communicator's rank 0. On a key's first instance rank 0
 * broadcasts its choice: four bytes on the private communicator, which is legal inside a blocking
 * collective. Rank 0 may reach a named call site only later. So it broadcasts the choice again on
 * the key's 2nd, 4th, 8th, ... instance, which every member counts equally. The number of
 * broadcasts is the logarithm of the number of calls. If several overrides name call sites of one
 * key, the first one in the list of rules applies.
 *
 * The table is bounded, for programs that never repeat a key. A new key replaces the least recently
 * used one, by the number of blocking collectives. All members see the same keys in the same order,
 * so their tables are equal. A table belongs to its communicator, on which MPI forbids concurrent
 * calls by two threads.
 */
#include "selection/online/key.h"

#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/private_comm.h"
#include "record/call.h"
#include "selection/rules/rules.h"

enum { HISTORY = 3, MOST_KEYS = 128 };

static struct keys *tables;

struct keys {
    /* list of all tables of the process, protected by recorder.lock; `link` refers to this entry */
    struct keys *next, **link;
    int count;
    struct key list[MOST_KEYS];
};

/* ---- hash of a key */

/* Return a size class: exact up to 64 bytes, then powers of two. */
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

/* Return the hash of a key, which is equal on all members. The problem must be filled in. */
uint64_t key_hash(const struct execution *e)
{
    const struct communicator *const k = e->call->comm;
    const struct problem *const p = &e->problem;
    /* includes this operation */
    const uint64_t past = k->history & ((UINT64_C(1) << 8 * (HISTORY + 1)) - 1);
    uint64_t h = hash_mix(past, (uint64_t)(e->call->root + 1));

    if (!problem_is_known(e))
        return h; /* each member knows only its own sizes */
    /* bytes of both groups, the first group's first on all members */
    if (k->inter && k->first_group)
        return hash_mix(hash_mix(h, size_class(p->bytes)), size_class(p->remote_bytes));
    if (k->inter)
        return hash_mix(hash_mix(h, size_class(p->remote_bytes)), size_class(p->bytes));
    return hash_mix(h, p->counts != NULL ? counts_class(p->counts, p->size) : size_class(p->bytes));
}

/* ---- the table */

static struct keys *table_make(struct communicator *k)
{
    struct keys *const t = comm_state(k)->keys = memory_allocate(sizeof *t);

    if (t == NULL)
        return NULL;
    recorder_lock();
    t->link = &tables;
    t->next = tables;
    if (tables != NULL)
        tables->link = &t->next;
    tables = t;
    recorder_unlock();
    return t;
}

static struct key *least_recent(struct keys *t, uint32_t now)
{
    struct key *oldest = &t->list[0];

    for (int i = 1; i < t->count; i++)
        if (now - t->list[i].used > now - oldest->used)
            oldest = &t->list[i];
    return oldest;
}

/* Return the entry of a key, which is added if it is new. All members call it with the same
 * arguments. Returns NULL if the memory reserve is exhausted too. */
struct key *key_find(struct communicator *k, uint64_t hash, uint32_t blocking)
{
    struct keys *t = comm_state(k)->keys;

    if (t == NULL && (t = table_make(k)) == NULL)
        return NULL;
    for (int i = 0; i < t->count; i++)
        if (t->list[i].hash == hash) {
            t->list[i].used = blocking;
            return &t->list[i];
        }
    const bool full = t->count == MOST_KEYS;
    struct key *const made = full ? least_recent(t, blocking) : &t->list[t->count++];

    if (full)
        finalize_free(made, 1, MPI_COMM_NULL);
    *made =
        (struct key){.hash = hash, .used = blocking, .agreed = RULE_NONE, .override = RULE_NONE};
    return made;
}

/* Start a duplicate with the choices of its parent, because a short-lived communicator would never
 * complete its probing. All members duplicate at the same point in the parent's order of calls. */
void keys_inherit(struct communicator *child, const struct communicator *parent)
{
    const struct keys *const from = comm_state(parent)->keys;

    if (!auto_chooses || from == NULL || from->count == 0 || comm_state(child)->keys != NULL)
        return;
    struct keys *const to = table_make(child);

    for (int i = 0; to != NULL && i < from->count; i++) {
        struct key *const made = &to->list[to->count];

        *made =
            (struct key){.hash = from->list[i].hash, .agreed = RULE_NONE, .override = RULE_NONE};
        finalize_inherit(made, &from->list[i]);
        to->count += !variant_is_default(&made->inherited);
    }
}

/* Free the keys and the private communicator. */
void keys_free(struct communicator *k)
{
    struct keys *const t = comm_state(k)->keys;

    if (t != NULL) {
        recorder_lock();
        *t->link = t->next;
        if (t->next != NULL)
            t->next->link = t->link;
        recorder_unlock();
    }
    if (recorder.switching)
        finalize_free(t != NULL ? t->list : NULL, t != NULL ? t->count : 0, private_of(k)->comm);
    memory_free(t);
    comm_state(k)->keys = NULL;
}

/* End all keys between collectives, on all ranks. The private communicators stay. */
void keys_discard(void)
{
    for (struct keys *t = tables; t != NULL; t = t->next) {
        finalize_free(t->list, t->count, MPI_COMM_NULL);
        t->count = 0;
    }
}

/* End all keys in MPI_Finalize, on all ranks. The order of the keys of a communicator is equal on
 * all members. With 10^4 keys only the first MOST complete their windows. After one second, the
 * reductions are left to the library. */
void keys_finalize(void)
{
    enum { MOST = 4096 };
    static SPARSE struct selection *list[MOST];
    const int64_t deadline = now_ns() + INT64_C(1000000000);
    int count = 0;

    if (!auto_is_collecting)
        return;
    for (struct keys *t = tables; t != NULL; t = t->next)
        for (int i = 0; i < t->count && count < MOST; i++)
            if (t->list[i].selection != NULL)
                list[count++] = t->list[i].selection;
    if (recorder.options.totals)
        finalize_windows(list, count, deadline);
    keys_discard();
    finalize_orphans(deadline);
}

/* ---- choice */

static void site_note(struct key *key, const struct execution *e, const struct call_properties *q)
{
    const struct site *const s = call_site(e->call);
    const int override = rules_of_site(q, s);

    if (override != RULE_NONE && (key->override == RULE_NONE || override < key->override))
        key->override = override;
    if (key->site == NULL) {
        key->site = s;
        key->site_override = override;
    } else if (key->site != s && key->override != RULE_NONE) {
        diagnostics_share(q->operation, key->site, key->site_override, s, override);
    }
}

/* Return the rule for all call sites of this key, or RULE_NONE. All members call it, and the
 * private communicator must exist. */
int key_choice(struct key *key, const struct execution *e, const struct call_properties *q)
{
    const struct communicator *const k = e->call->comm;

    key->choices++;
    if (comm_is_leader(k))
        site_note(key, e, q);
    if (is_power_of_two(key->choices)) {
        int32_t rule = key->override;

        if (pmpi.Bcast(&rule, sizeof rule, MPI_BYTE, 0, private_of(k)->comm) != MPI_SUCCESS)
            rule = RULE_NONE;
        key->agreed = rule;
    }
    return key->agreed;
}
