/* Fit of t(m) = alpha + beta m to measured times, with a bend at the buffer size.
 *
 *   t |            / pace
 *     |          /
 *     |        _/
 *     |   __.--  beta
 *     |--'                     An idle port accepts the first bytes, up to its buffer, at once.
 *     +--------+--------- m    The remaining bytes take the link's time per byte.
 *           buffer
 *
 * One-way messages show the pace only if they are larger than the buffer. Simultaneous messages
 * both ways follow each other without idle time, so smaller ones show the pace too. Their time
 * beyond twice the one-way time is due to the link alone. On emulated ports of 100 Mbit/s, 16 KB
 * take 0.09 ms one way and 1.37 ms both ways. Predictions from the one-way time were too short by a
 * factor of 10, and by a factor of 40 if only one rank sends.
 */
#include "timing/timing.h"

#include <string.h>

#include "base/base.h"

static double minimum(double a, double b)
{
    return a < b ? a : b;
}

/* Make the times monotonic: a message that took longer than a larger one was disturbed. */
void alpha_beta_fit_sort(struct alpha_beta_fit *l)
{
    for (int i = l->count - 2; i >= 0; i--) {
        l->one_way[i] = minimum(l->one_way[i], l->one_way[i + 1]);
        l->both_ways[i] = minimum(l->both_ways[i], l->both_ways[i + 1]);
    }
}

/* Least-squares fit of t = alpha + beta m with weights 1/t, so that small and large messages count
 * equally. */
static void least_squares_fit(const struct alpha_beta_fit *t, double *alpha, double *beta)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;

    for (int i = 0; i < t->count; i++) {
        const double time = t->one_way[i] > 1 ? t->one_way[i] : 1, u = 1 / (time * time);

        w += u;
        x += u * t->sizes[i];
        y += u * time;
        xx += u * t->sizes[i] * (double)t->sizes[i];
        xy += u * t->sizes[i] * time;
    }
    const double determinant = w * xx - x * x;

    *beta = t->count > 1 && determinant > 0 ? (w * xy - x * y) / determinant : 0;
    *beta = *beta < 0 ? 0 : *beta;
    *alpha = w > 0 ? (y - *beta * x) / w : 0;
}

static double last_slope(const struct alpha_beta_fit *l, const double *times)
{
    const int last = l->count - 1;

    return (times[last] - times[last - 1]) / (l->sizes[last] - l->sizes[last - 1]);
}

struct link alpha_beta_fit_link(const struct alpha_beta_fit *l)
{
    struct link k = {0};
    const int last = l->count - 1;

    least_squares_fit(l, &k.alpha, &k.beta);
    k.pace = k.beta;
    if (last < 1)
        return k;
    const double one = last_slope(l, l->one_way), both = last_slope(l, l->both_ways);
    const double pace = both > 2 * one ? both : one;

    if (pace <= k.beta)
        return k;
    k.pace = pace;
    k.buffer = (k.alpha + pace * l->sizes[last] - l->one_way[last]) / (pace - k.beta);
    k.buffer = k.buffer > 0 ? k.buffer : 0;
    return k;
}

/* ---- reading a machine table, as machine.c or a user has written it */

/* Return the number at a name within [s, end) of JSON with any white space, or 0. */
static double number_at(const char *s, const char *end, const char *name)
{
    double number = 0;

    s = strstr(s, name);
    if (s != NULL && s < end)
        text_scan(s + strlen(name), " : %lf", &number);
    return number;
}

/* Return true if the list of clean repetitions within [s, end) has a count below the least one. */
static bool is_disturbed(const char *s, const char *end)
{
    static const char name[] = "\"undisturbed_rounds\"";
    double least = LEAST_CLEAN, count = 0;

    s = strstr(s, name);
    if (s == NULL || s >= end)
        return false;
    for (s += strcspn(s, "["); s < end && *s != ']'; s += 1 + strcspn(s + 1, ",]"))
        if (text_scan(s + 1, "%lf", &count) == 1 && count < least)
            least = count;
    return least < LEAST_CLEAN;
}

/* Return the slowest link of a table in JSON: the link between nodes, or else the link within one.
 * A user may have rewritten the table with another tool, which changes white space and order. Times
 * within a node have no use if other processes took the cores during the measurement. Between
 * nodes, a message takes so long that they may do so (trace/machine.py). */
struct link alpha_beta_fit_slowest_link(const char *table)
{
    static const char *const links[] = {"\"between\"", "\"within\""};

    for (size_t i = 0; table != NULL && i < 2; i++) {
        const char *s = strstr(table, links[i]);

        if (s == NULL)
            continue;
        s += strlen(links[i]);
        s += strspn(s, " \t\r\n:");
        const char *const end = *s == '{' ? strchr(s, '}') : NULL;

        if (end != NULL && i == 1 && is_disturbed(s, end))
            break;
        if (end != NULL)
            return (struct link){
                number_at(s, end, "\"alpha_ns\""), number_at(s, end, "\"beta_ns_per_byte\""),
                number_at(s, end, "\"pace_ns_per_byte\""), number_at(s, end, "\"buffer_bytes\"")};
    }
    return (struct link){0};
}
