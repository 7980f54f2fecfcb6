/* Fills static memory, releases BYTES of it from FROM, and prints the first and last byte that
 * reads as zero, or "none". Exits with 1 if a byte outside of the released range was lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { SIZE = 1 << 20 };

int main(int argc, char **argv)
{
    static _Alignas(65536) char all[SIZE]; /* whole pages, whatever their size */
    const long from = atol(argv[1]), bytes = atol(argv[argc - 1]);
    long first = -1, last = -1, lost = 0;

    memset(all, 'x', sizeof all);
    memory_pages_release(all + from, (size_t)bytes);
    for (long i = 0; i < SIZE; i++) {
        if (all[i] == 'x')
            continue;
        first = first < 0 ? i : first;
        last = i;
        lost += i < from || i >= from + bytes;
    }
    printf(first < 0 ? "none\n" : "%ld %ld\n", first, last);
    return lost > 0;
}
