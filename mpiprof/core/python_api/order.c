/* Order of rows by group, and a search among ordered rows.
 *
 * It has no MPI and no state. Caller: mpiprof/account/row_order.py, from any thread. The caller
 * owns all arrays. */
#include <string.h>

#include "base/base.h"

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

/* Returns the end of the ascending rows that begin at `at`. */
static int64_t find_run_end(const int64_t *time, const int64_t *row, int64_t at, int64_t count)
{
    at++;
    while (at < count && time[row[at - 1]] <= time[row[at]])
        at++;
    return at;
}

/* Merges ascending rows before `middle` with those behind it; equal ones keep their order. */
static void merge_rows(const int64_t *time, const int64_t *row, int64_t middle, int64_t count,
                       int64_t *merged)
{
    int64_t low = 0, high = middle;

    for (int64_t i = 0; i < count; i++) {
        const bool is_low = high == count || (low < middle && time[row[low]] <= time[row[high]]);

        merged[i] = row[is_low ? low++ : high++];
    }
}

/* Sorts rows by time; equal ones keep their order. It merges the parts that ascend.
 *
 * room: for the rows. */
static void sort_rows(const int64_t *time, int64_t *row, int64_t count, int64_t *room)
{
    int64_t *from = row, *to = room, parts = 0;

    if (count < 2 || find_run_end(time, row, 0, count) == count)
        return;
    do {
        parts = 0;
        for (int64_t at = 0, end; at < count; at = end, parts++) {
            const int64_t middle = find_run_end(time, from, at, count);

            end = middle < count ? find_run_end(time, from, middle, count) : count;
            merge_rows(time, from + at, middle - at, end - at, to + at);
        }
        int64_t *const merged = to;

        to = from;
        from = merged;
    } while (parts > 1);
    if (from != row)
        memcpy(row, from, (size_t)count * sizeof *row);
}

/* Sorts the rows of each group by time; equal ones keep their order.
 *
 * first, order: as order_by_group returns them. room: for the rows of the largest group. */
PUBLIC void order_by_time(int64_t groups, const int64_t *time, const int64_t *first, int64_t *order,
                          int64_t *room)
{
    for (int64_t g = 0; g < groups; g++)
        sort_rows(time, order + first[g], first[g + 1] - first[g], room);
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
