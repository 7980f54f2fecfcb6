/* The catalogue of algorithms, and the search in it. */
#include <string.h>

#include "schedule/algorithms/catalogue.h"

#define ENTRY(name) &algorithm_##name,
const struct algorithm *const catalogue[] = {CATALOGUE(ENTRY)};
#undef ENTRY
const int catalogue_count = sizeof catalogue / sizeof *catalogue;

const struct algorithm *catalogue_find(const char *operation, const char *name, bool inter)
{
    for (int i = 0; i < catalogue_count; i++) {
        const struct algorithm *const a = catalogue[i];

        if (a->inter == inter && strcmp(a->operation, operation) == 0 && strcmp(a->name, name) == 0)
            return a;
    }
    return NULL;
}
