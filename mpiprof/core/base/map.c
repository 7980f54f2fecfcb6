/* Hash table from 64-bit keys to pointers. Readers take no lock, writers hold recorder.lock.
 *
 * It uses open addressing. The slot of a key never changes within a table; a removed value leaves
 * its key with NULL. A table that is three quarters full is copied into a larger one for its live
 * keys, which is then published. The old table stays allocated, because a reader may still use it.
 */
#include "base/base.h"

struct map_slot {
    _Atomic uint64_t key; /* 0 for a slot that was never used */
    void *_Atomic value;
};
struct map_table {
    struct map_table *older;
    size_t mask, used;
    struct map_slot slots[];
};

static struct map_slot *slot_for(struct map_table *t, uint64_t key)
{
    size_t i = (size_t)hash_mix(key, 1) & t->mask;

    for (;;) {
        const uint64_t there = atomic_load_explicit(&t->slots[i].key, memory_order_acquire);

        if (there == key || there == 0)
            return &t->slots[i];
        i = (i + 1) & t->mask;
    }
}

void *map_get(const struct map *m, uint64_t key)
{
    struct map_table *const t = atomic_load_explicit(&m->table, memory_order_acquire);

    key += key == 0;
    if (t == NULL)
        return NULL;
    struct map_slot *const slot = slot_for(t, key);

    if (atomic_load_explicit(&slot->key, memory_order_acquire) != key)
        return NULL;
    return atomic_load_explicit(&slot->value, memory_order_acquire);
}

static struct map_table *table_grow(struct map *m, struct map_table *old)
{
    size_t live = 0;

    for (size_t i = 0; old != NULL && i <= old->mask; i++)
        live += atomic_load(&old->slots[i].value) != NULL;
    size_t size = 64;
    while (size < 3 * live)
        size *= 2;
    struct map_table *const t = memory_allocate(sizeof *t + size * sizeof *t->slots);

    if (t == NULL)
        return NULL;
    t->mask = size - 1;
    t->older = old;
    for (size_t i = 0; old != NULL && i <= old->mask; i++) {
        void *const value = atomic_load(&old->slots[i].value);

        if (value == NULL)
            continue;
        struct map_slot *const slot = slot_for(t, atomic_load(&old->slots[i].key));

        atomic_store(&slot->value, value);
        atomic_store(&slot->key, atomic_load(&old->slots[i].key));
        t->used++;
    }
    atomic_store_explicit(&m->table, t, memory_order_release);
    return t;
}

bool map_put(struct map *m, uint64_t key, void *value)
{
    struct map_table *t = atomic_load(&m->table);

    key += key == 0;
    if (t == NULL || 4 * (t->used + 1) > 3 * (t->mask + 1))
        t = table_grow(m, t);
    if (t == NULL)
        return false;
    struct map_slot *const slot = slot_for(t, key);

    t->used += atomic_load(&slot->key) == 0;
    atomic_store_explicit(&slot->value, value, memory_order_release);
    atomic_store_explicit(&slot->key, key, memory_order_release);
    return true;
}

void map_free(struct map *m)
{
    struct map_table *t = atomic_exchange(&m->table, NULL);

    while (t != NULL) {
        struct map_table *const older = t->older;

        memory_free(t);
        t = older;
    }
}
