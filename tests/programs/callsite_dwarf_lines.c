/* Prints the source lines of the offsets on standard input, one per line, with the recorder's DWARF
 * reader. */
#include "callsite/dwarf_line.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 20000 };

int main(int argc, char **argv)
{
    static struct line_query queries[MOST];
    unsigned long offset;
    int count = 0;

    while (count < MOST && scanf("%lx", &offset) == 1)
        queries[count++].offset = offset;
    if (argc > 1)
        dwarf_line_find(argv[1], queries, count);
    for (int i = 0; i < count; i++) {
        puts(queries[i].place != NULL ? queries[i].place : "?");
        free(queries[i].place);
    }
}
