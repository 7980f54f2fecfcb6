/* The line t(m) = alpha + beta m through measured times, and where it bends.
 *
 *      t |            / pace
 *        |          /
 *        |        _/
 *        |   __.--  beta
 *        |--'                     A port that was idle lets the first bytes of its buffer
 *        +--------+--------- m    through at once; the others take what the link takes.
 *              buffer
 *
 * Large messages show the pace, one way, if they are larger than the buffer. Messages both ways at
 * once follow each other without a rest, so that smaller ones show it as well: what they take beyond
 * twice the time one way is no other direction's. (On emulated ports of 100 Mbit/s 16 KB take 0.09 ms
 * one way and 1.37 ms both ways. Predictions by the first were short by a factor of ten, and those of
 * what one rank alone sends by forty.)
 */
#include "machine/line.h"

static double shorter(double a, double b)
{
    return a < b ? a : b;
}

/* A message takes no longer than a larger one: where it did, it was disturbed. */
void line_order(struct line *l)
{
    for (int i = l->count - 2; i >= 0; i--) {
        l->one_way[i] = shorter(l->one_way[i], l->one_way[i + 1]);
        l->both_ways[i] = shorter(l->both_ways[i], l->both_ways[i + 1]);
    }
}

/* Least squares of t = alpha + beta m, weighted by 1/t: small messages count as much as large. */
static void fit(const struct line *t, double *alpha, double *beta)
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

/* What a byte more takes between the two largest sizes. */
static double last_slope(const struct line *l, const double *times)
{
    const int last = l->count - 1;

    return (times[last] - times[last - 1]) / (l->sizes[last] - l->sizes[last - 1]);
}

struct link line_link(const struct line *l)
{
    struct link k = {0};
    const int last = l->count - 1;

    fit(l, &k.alpha, &k.beta);
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
