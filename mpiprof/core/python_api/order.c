/* Order of rows by group and time, for rows that consist of a few parts in order, and a search.
 *
 * It has no MPI and no state. Caller: mpiprof/metrics/time_order.py, from any thread. The caller owns all
 * arrays. The rows of each group are collected first. Then the parts that are in order are merged.
 * Rows of many parts are sorted by the digits of their times instead, which needs no comparisons. */
#include <string.h>

#include "base/base.h"

enum { MERGED_PARTS = 8, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

struct entry {
    int64_t time, row;
};

/* Returns the end of the part that begins at `at`: its times do not descend. */
static int64_t part_end(const struct entry *e, int64_t at, int64_t end)
{
    while (++at < end && e[at - 1].time <= e[at].time)
        ;
    return at;
}

/* Merges two parts; of equal times, that of the first part comes first. */
static void merge(struct entry *to, const struct entry *a, const struct entry *a_end,
                  const struct entry *b, const struct entry *b_end)
{
    while (a < a_end && b < b_end)
        *to++ = b->time < a->time ? *b++ : *a++;
    memcpy(to, a, (size_t)(a_end - a) * sizeof *a);
    memcpy(to + (a_end - a), b, (size_t)(b_end - b) * sizeof *b);
}

/* Merges each two neighbouring parts of `from` into `to`, and returns the number of results. */
static int64_t merge_pairs(struct entry *to, const struct entry *from, int64_t count)
{
    int64_t merged = 0;

    for (int64_t at = 0; at < count; merged++) {
        const int64_t middle = part_end(from, at, count);
        const int64_t end = middle < count ? part_end(from, middle, count) : count;

        merge(to + at, from + at, from + middle, from + middle, from + end);
        at = end;
    }
    return merged;
}

/* Reverses the parts whose times descend. */
static void reverse_parts(struct entry *e, int64_t count)
{
    for (int64_t at = 0, end; at < count; at = end) {
        end = at + 1;
        while (end < count && e[end].time < e[end - 1].time)
            end++;
        for (int64_t low = at, high = end - 1; low < high; low++, high--) {
            const struct entry entry = e[low];

            e[low] = e[high];
            e[high] = entry;
        }
    }
}

/* Returns the number of parts that are in order, or `limit` if there are more. */
static int64_t count_parts(const struct entry *e, int64_t count, int64_t limit)
{
    int64_t parts = 0;

    for (int64_t at = 0; at < count && parts < limit; parts++)
        at = part_end(e, at, count);
    return parts;
}

/* Sorts entries by one digit of the time since `low`; equal ones keep their order. */
static void sort_by_digit(struct entry *to, const struct entry *from, int64_t count, int64_t low,
                          int shift)
{
    int64_t at[DIGITS + 1] = {0};

    for (int64_t i = 0; i < count; i++)
        at[(((uint64_t)from[i].time - (uint64_t)low) >> shift) % DIGITS + 1]++;
    for (int digit = 0; digit < DIGITS; digit++)
        at[digit + 1] += at[digit];
    for (int64_t i = 0; i < count; i++)
        to[at[(((uint64_t)from[i].time - (uint64_t)low) >> shift) % DIGITS]++] = from[i];
}

/* Sorts entries by the digits of their times, and returns where they are: in `e` or in `room`. */
static struct entry *sort_by_digits(struct entry *e, struct entry *room, int64_t count)
{
    int64_t low = e[0].time, high = e[0].time;

    for (int64_t i = 1; i < count; i++) {
        low = e[i].time < low ? e[i].time : low;
        high = e[i].time > high ? e[i].time : high;
    }
    const uint64_t range = (uint64_t)high - (uint64_t)low;

    for (int shift = 0; shift < 64 && range >> shift != 0; shift += DIGIT_BITS) {
        struct entry *const sorted = room;

        sort_by_digit(sorted, e, count, low, shift);
        room = e;
        e = sorted;
    }
    return e;
}

/* Sorts entries by time, and returns where they are: in `e` or in `room`. */
static struct entry *sort(struct entry *e, struct entry *room, int64_t count)
{
    int64_t parts = count_parts(e, count, 2);

    if (parts > 1) {
        reverse_parts(e, count);
        parts = count_parts(e, count, MERGED_PARTS + 1);
    }
    if (parts > MERGED_PARTS && count > DIGITS)
        return sort_by_digits(e, room, count);
    while (parts > 1) {
        struct entry *const sorted = room;

        parts = merge_pairs(sorted, e, count);
        room = e;
        e = sorted;
    }
    return e;
}

/* Sorts some rows by time. entries: has two for each row. */
static void sort_rows(int64_t *rows, int64_t count, const int64_t *time, struct entry *entries)
{
    const struct entry *sorted = entries;

    for (int64_t i = 0; i < count; i++)
        entries[i] = (struct entry){time[rows[i]], rows[i]};
    sorted = sort(entries, entries + count, count);
    for (int64_t i = 0; i < count; i++)
        rows[i] = sorted[i].row;
}

/* Writes the rows by group to `order`, and the first of each group to `first`.
 *
 * Rows of a group keep their order. group: below `groups`. first: has groups + 1 elements. */
PUBLIC void order_by_group(int64_t rows, int64_t groups, const int32_t *group, int64_t *first,
                           int64_t *order)
{
    memset(first, 0, (size_t)(groups + 1) * sizeof *first);
    for (int64_t i = 0; i < rows; i++)
        first[group[i] + 1]++;
    for (int64_t g = 0; g < groups; g++)
        first[g + 1] += first[g];
    for (int64_t i = 0; i < rows; i++)
        order[first[group[i]]++] = i;
    memmove(first + 1, first, (size_t)groups * sizeof *first);
    first[0] = 0;
}

/* Sorts the rows of each group by time; those of equal time keep their order.
 *
 * first: of each group, its first row in `order`. entries: has two for each row of a group. */
PUBLIC void order_by_time(int64_t groups, const int64_t *first, const int64_t *time,
                          struct entry *entries, int64_t *order)
{
    for (int64_t g = 0; g < groups; g++)
        sort_rows(order + first[g], first[g + 1] - first[g], time, entries);
}

/* Writes the rows of two columns of times to `order`, the latest first; those of equal time keep
 * their order. Rows of the second column follow those of the first. entries: has two for each. */
PUBLIC void order_from_latest(const int64_t *times, int64_t count, const int64_t *more_times,
                              int64_t more, struct entry *entries, int64_t *order)
{
    const struct entry *sorted = entries;

    for (int64_t i = 0; i < count; i++)
        entries[i] = (struct entry){-times[i], i};
    for (int64_t i = 0; i < more; i++)
        entries[count + i] = (struct entry){-more_times[i], count + i};
    sorted = sort(entries, entries + count + more, count + more);
    for (int64_t i = 0; i < count + more; i++)
        order[i] = sorted[i].row;
}

/* Returns the first of some ascending times that is not before a time, or, with `after`, is later.
 *
 * The search begins at `at`, before which all times are earlier, and doubles its steps. */
static int64_t find_time(const int64_t *time, int64_t at, int64_t end, int64_t sought)
{
    int64_t step = 1, high = at;

    while (high < end && time[high] < sought) {
        at = high + 1;
        high = end - high > step ? high + step : end;
        step *= 2;
    }
    while (at < high) {
        const int64_t middle = at + (high - at) / 2;

        if (time[middle] < sought)
            at = middle + 1;
        else
            high = middle;
    }
    return at;
}

/* Writes where each of some rows belongs among the ordered rows of its group.
 *
 * first: of each group, its first ordered row. time: of the ordered rows. count, group, sought: of
 * the rows to place; the search is fast if they are in order. after: 1 to place a row after those of
 * equal time, else 0. */
PUBLIC void order_find(const int64_t *first, const int64_t *time, int64_t count,
                       const int64_t *group, const int64_t *sought, int64_t after, int64_t *place)
{
    for (int64_t i = 0; i < count; i++) {
        const int is_next = i > 0 && group[i] == group[i - 1] && sought[i] >= sought[i - 1];

        place[i] = find_time(time, is_next ? place[i - 1] : first[group[i]], first[group[i] + 1],
                             sought[i] + after);
    }
}
