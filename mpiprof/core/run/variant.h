/* A variant: an algorithm with its parameters, in one spelling: variant.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "schedule/schedule.h"

struct own_algorithm;
struct variant {
    const struct algorithm *algorithm; /* NULL: the library's own, or (rules) not looked up yet */
    const struct own_algorithm *own;   /* then one of those */
    int64_t segment;                   /* of its messages; 0: whole ones */
    int64_t block_size;                /* 0: the algorithm's own choice */
    int order;                         /* of a ring */
    bool equal_blocks;
    int late;          /* the rank that is expected to come last */
    const char *label; /* its text, compared by address; NULL: the library's own */
};
bool variant_same(const struct variant *a, const struct variant *b);
void variant_apply(const struct variant *v, struct problem *p);
const char *variant_order(const struct variant *v);
void variant_add(struct text *t, const char *name, const struct variant *v);
const char *variant_label(const char *name, const struct variant *v);
const char *variant_own(const char *name);
bool variant_read(struct variant *v, const char *text, char *name, size_t room);
