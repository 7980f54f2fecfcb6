/* Table of call sites (site.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/text.h"

struct site {
    uint32_t id;
    const int *overrides; /* rules.c: the rules that name the site, or NULL */
    const char *frame;    /* first frame, as in the tables; NULL if no calls are switched */
    bool skip;            /* Python: a frame of mpi4py or of a skipped package */
};
struct site *site_new(struct map *m, uint64_t key, const struct text *frames);
void site_name(const struct site *s, struct text *name);
