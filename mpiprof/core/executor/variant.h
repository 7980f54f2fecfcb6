/* A variant: an algorithm with its parameters, and its spelling (variant.c). */
#pragma once
#include "base/base.h"
#include "schedule/schedule.h"

struct library_algorithm;
struct variant {
    const struct algorithm *algorithm; /* NULL in a rule before it is looked up, or with: */
    const struct library_algorithm *library_algorithm;
    int64_t segment;    /* segment size of its messages; 0 for whole messages */
    int64_t block_size; /* 0 for the algorithm's default */
    int order;
    bool equal_blocks;
    int late;          /* rank that is expected to arrive last */
    const char *label; /* its spelling, compared by address; NULL for the library's default */
};

/* Return true if a variant names no algorithm: the library's default. */
static inline bool variant_is_default(const struct variant *v)
{
    return v->algorithm == NULL && v->library_algorithm == NULL;
}

bool variant_same(const struct variant *a, const struct variant *b);
void variant_apply(const struct variant *v, struct problem *p);
const char *variant_label(const char *name, const struct variant *v);
const char *variant_own(const char *name);
bool variant_read(struct variant *v, const char *text, char *name, size_t room);
