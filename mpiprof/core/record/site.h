/* Call sites, as rows of the tables: site.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/text.h"

struct name;
struct site {
    uint32_t id;
    const int *overrides; /* rules.c: the rules that name it, NULL: none */
    struct name *name;    /* names.c: for messages */
    bool skip;            /* Python: a frame of mpi4py, or of a package to skip */
};
struct site *site_new(struct map *m, uint64_t key, const struct text *frames);
