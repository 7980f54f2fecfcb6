/* What rounds say of a message's time (core/machine/rounds.c), whose times are given, without MPI.
 *
 *     message_rounds < NUMBERS
 *
 * Each line of NUMBERS is a measurement: its rounds in ns, in the order of time; those in which the
 * leader lost its core are negative. Prints of each the time and the spread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "machine/rounds.h"

int main(void)
{
    char line[1 << 16];

    while (fgets(line, sizeof line, stdin) != NULL) {
        struct rounds r = {0};
        char *rest = line, *end;

        for (double ns = strtod(rest, &end); end != rest; ns = strtod(rest, &end)) {
            rounds_keep(&r, ns < 0 ? -ns : ns, ns >= 0);
            rest = end;
        }
        printf("%.3f %.4f\n", rounds_time(&r), rounds_spread(&r));
    }
    return 0;
}
