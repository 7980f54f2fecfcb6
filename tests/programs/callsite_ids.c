/* Creates call sites while memory or table rows are refused. With core/callsite/site.
 *
 *   callsite_ids PLAN     a letter for each site: m no memory, w no row, . success
 *
 * Prints the rows that are written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "callsite/callsite.h"
#include "tracefile/tracefile.h"

static char now;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    return now == 'm' && bytes == sizeof(struct site) ? NULL : __real_calloc(count, bytes);
}

bool file_write_line(const struct text *line)
{
    if (now != 'w')
        printf("%s", line->bytes);
    return now != 'w';
}

int main(int argc, char **argv)
{
    static struct map sites;
    char name[] = "{\"file\": \"a\"}";
    const struct text frames = {.bytes = name, .length = sizeof name - 1};

    for (int i = 0; argc > 1 && argv[1][i] != '\0'; i++) {
        now = argv[1][i];
        name[10] = (char)('a' + i);
        printf("%u\n", site_new(&sites, (uint64_t)i + 1, &frames)->id);
    }
    return 0;
}
