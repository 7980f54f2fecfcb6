/* Estimates message times from given repetitions (core/timing/repetitions.c), without MPI.
 *
 *     timing_repetitions < NUMBERS
 *
 * Each line of NUMBERS is a measurement: its repetitions in ns, in order of time. Repetitions in
 * which the leader lost its core are negative. Prints the time and the spread of each measurement.
 */
#include <stdio.h>
#include <stdlib.h>

#include "timing/timing.h"

int main(void)
{
    char line[1 << 16];

    while (fgets(line, sizeof line, stdin) != NULL) {
        struct repetitions r = {0};
        char *rest = line, *end;

        for (double ns = strtod(rest, &end); end != rest; ns = strtod(rest, &end)) {
            repetition_add(&r, ns < 0 ? -ns : ns, ns >= 0);
            rest = end;
        }
        printf("%.3f %.4f\n", repetition_time(&r), repetition_spread(&r));
    }
    return 0;
}
