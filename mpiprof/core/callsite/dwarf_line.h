/* Source lines of instruction addresses (dwarf_line.c). */
#pragma once
#include <stdint.h>

struct line_query {
    uint64_t offset; /* from the module's load address */
    char *place;     /* result: app.c:12, which the caller frees; NULL if unknown */
};
void dwarf_line_find(const char *module, struct line_query *queries, int count);
