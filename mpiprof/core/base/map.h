/* Hash table with lock-free readers (map.c). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct map_table;
struct map {
    struct map_table *_Atomic table;
};
void *map_get(const struct map *m, uint64_t key);
/* the caller must have locked recorder.lock; a NULL value removes the key */
bool map_put(struct map *m, uint64_t key, void *value);
void map_free(struct map *m); /* no thread may still read the map */
