/* Which protocol reduces a vector, by the number of processes and its bytes.
 *
 * Source: Rabenseifner and Adamidis 2004, Section 4, measured on a Cray T3E 900. Theirs are the
 * limits of 32 B and 1 KB, the numbers of processes where the ring is ahead, and the rule for binary
 * blocks, for more than 32 processes and from 16 KB on. Of what they leave to tables that they
 * don't show, this is our reading: the same rule for fewer processes; halving and doubling from 1
 * to 16 KB; and below, where they take the vendor's routine for powers of two, "not a big
 * difference" to recursive doubling, that one. A reduce has none, and takes the binary tree.
 */
#include "choose/paper.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "schedule/schedule.h"

/* The largest gap between the exponents of two successive blocks of 2^k processes. */
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

/* Figure 5, at 32 KB; of 15 processes the text says so. */
static bool ring_is_ahead(int size, int64_t bytes)
{
    static const int sizes[] = {3, 5, 7, 9, 10, 11, 17};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] == size)
            return bytes >= 32768;
    return size == 15 && bytes > 65536;
}

/* NULL: the paper says nothing of this operation. */
const char *paper_protocol(const char *operation, int size, int64_t bytes)
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
    /* The gap is less than lg(bytes) / 2 - 2.5. */
    if (bytes >= 16384 && 2 * largest_gap(size) + 5 < 62 &&
        bytes > INT64_C(1) << (2 * largest_gap(size) + 5))
        return "binary_blocks";
    return "halving_doubling";
}
