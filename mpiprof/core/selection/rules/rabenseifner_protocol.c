/* Choice of a reduction protocol by the number of processes and the bytes of the vector.
 *
 * Source: Rabenseifner and Adamidis 2004, Section 4, measured on a Cray T3E 900. It states the
 * limits of 32 B and 1 KB, the numbers of processes for which the ring is fastest, and the rule for
 * binary blocks for more than 32 processes from 16 KB on.
 *
 * It leaves other cases to tables that it does not show, which are interpreted here. Fewer
 * processes use the same rule for binary blocks. Halving and doubling is used from 1 to 16 KB.
 * Below, for powers of two, the paper uses the vendor's routine, with "not a big difference" to
 * recursive doubling; so recursive doubling is used. A reduce has none, and uses the binary tree.
 */
#include "selection/rules/rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "schedule/schedule.h"

/* Return the largest gap between the exponents of two successive blocks of 2^k processes. */
static int largest_gap(int size)
{
    int largest = 0, before = -1;

    for (int k = 0; size >> k != 0; k++) {
        if ((size >> k & 1) == 0)
            continue;
        if (before >= 0 && k - before > largest)
            largest = k - before;
        before = k;
    }
    return largest;
}

/* Return true if the ring is fastest. Source: Figure 5, at 32 KB, and the text for 15 processes. */
static bool ring_is_ahead(int size, int64_t bytes)
{
    static const int sizes[] = {3, 5, 7, 9, 10, 11, 17};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] == size)
            return bytes >= 32768;
    return size == 15 && bytes > 65536;
}

/* Return the name of a protocol, or NULL if the paper does not treat the operation. */
const char *rabenseifner_protocol(const char *operation, int size, int64_t bytes)
{
    const bool all = strcmp(operation, "allreduce") == 0, power = is_power_of_two(size);

    if (!all && strcmp(operation, "reduce") != 0)
        return NULL;
    if (bytes <= 1024)
        return all && (bytes <= 32 || power) ? "recursive_doubling" : "binary_tree";
    if (power)
        return "halving_doubling";
    if (ring_is_ahead(size, bytes))
        return "ring";
    /* condition: gap < lg(bytes) / 2 - 2.5 */
    if (bytes >= 16384 && 2 * largest_gap(size) + 5 < 62 &&
        bytes > INT64_C(1) << (2 * largest_gap(size) + 5))
        return "binary_blocks";
    return "halving_doubling";
}
