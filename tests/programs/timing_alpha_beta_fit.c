/* Fits a line to given message times (core/timing/alpha_beta_fit.c), without MPI.
 *
 *     timing_alpha_beta_fit BYTES:ONE_WAY_NS:BOTH_WAYS_NS ...
 *
 * Prints alpha, beta, pace and buffer.
 */
#include <stdio.h>

#include "timing/timing.h"

int main(int argc, char **argv)
{
    struct alpha_beta_fit l = {0};
    int sizes[MOST_SIZES];

    l.sizes = sizes;
    for (; l.count < argc - 1; l.count++)
        sscanf(argv[l.count + 1], "%d:%lf:%lf", &sizes[l.count], &l.one_way[l.count],
               &l.both_ways[l.count]);
    alpha_beta_fit_sort(&l);
    const struct link k = alpha_beta_fit_link(&l);

    printf("%.6f %.6f %.6f %.6f\n", k.alpha, k.beta, k.pace, k.buffer);
    return 0;
}
