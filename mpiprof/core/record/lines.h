/* lines.c: which line of which file an address of a program comes from. */
#pragma once
#include <stdint.h>

struct line_query {
    uint64_t offset; /* from where the module is loaded */
    char *place;     /* out: app.c:12, to be freed; NULL: not known */
};
void lines_find(const char *module, struct line_query *queries, int count);
