/* Prints the slowest link of the machine table on standard input, by timing/alpha_beta_fit. */
#include <stdio.h>

#include "timing/timing.h"

int main(void)
{
    static char table[1 << 16];
    const size_t length = fread(table, 1, sizeof table - 1, stdin);
    const struct link l = alpha_beta_fit_slowest_link(length > 0 ? table : NULL);

    printf("%g %g %g %g\n", l.alpha, l.beta, l.pace, l.buffer);
    return 0;
}
