/* A hash table that is read without locks: map.c. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct map_table;
struct map {
    struct map_table *_Atomic table;
};
void *map_get(const struct map *m, uint64_t key);
bool map_put(struct map *m, uint64_t key, void *value); /* under recorder.lock; NULL removes */
void map_free(struct map *m);                           /* one that no thread reads any more */
