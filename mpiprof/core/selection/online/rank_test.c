/* Robust statistics: medians, and a test if one set of numbers is smaller than another.
 *
 * The test is the one-sided rank-sum test of Mann and Whitney. It requires no distribution, and a
 * disturbed instance has no more weight than any other. Disturbances make measurements longer, so
 * the median of an even number of values is the lower of the two middle ones.
 *
 * The median is found by bisecting the range of the values, because a sorted copy of a window may
 * not fit on the stack of a thread or coroutine.
 */
#include "selection/online/selection.h"

struct series {        /* values, or their distances from `middle` */
    const char *first; /* address of an int64_t */
    size_t stride;     /* in bytes */
    int count;
    bool of_distances;
    int64_t middle;
};

static int64_t series_value(const struct series *s, int i)
{
    const int64_t value = *(const int64_t *)(const void *)(s->first + (size_t)i * s->stride);

    if (!s->of_distances)
        return value;
    return value > s->middle ? value - s->middle : s->middle - value;
}

/* Return the lower median: the smallest value that more than (count - 1) / 2 values do not exceed.
 * Returns 0 without values. */
static int64_t series_median(const struct series *s)
{
    int64_t low = INT64_MAX, high = INT64_MIN;

    for (int i = 0; i < s->count; i++) {
        const int64_t value = series_value(s, i);

        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    while (low < high) {
        const int64_t guess = low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
        int covered = 0;

        for (int i = 0; i < s->count; i++)
            covered += series_value(s, i) <= guess;
        if (covered > (s->count - 1) / 2)
            high = guess;
        else
            low = guess + 1;
    }
    return s->count > 0 ? low : 0;
}

/* Return the median of values that are `stride` bytes apart. */
int64_t rank_test_median_spaced(const int64_t *first, size_t stride, int count)
{
    const struct series s = {.first = (const char *)first, .stride = stride, .count = count};

    return series_median(&s);
}

int64_t rank_test_median_of(const int64_t *values, int count)
{
    return rank_test_median_spaced(values, sizeof *values, count);
}

int rank_test_samples(const struct candidate *c)
{
    return c->seen < MOST_SAMPLES ? c->seen : MOST_SAMPLES;
}

int64_t rank_test_median(const struct candidate *c)
{
    return rank_test_median_of(c->samples, rank_test_samples(c));
}

/* Return the known time of a candidate in ns, or 0 if it was never measured. */
int64_t rank_test_known(const struct candidate *c)
{
    return c->seen > 0 ? rank_test_median(c) : c->last_ns;
}

/* Return the score of the library's default, or of the current choice if the default was never
 * measured, as after a plan. */
int64_t rank_test_default_time(const struct selection *s)
{
    return s->observed.native_ns > 0 ? s->observed.native_ns
                                     : rank_test_median(&s->list[s->choice.current]);
}

/* Return the median absolute deviation. */
int64_t rank_test_spread_of(const int64_t *values, int count)
{
    const struct series distances = {.first = (const char *)values,
                                     .stride = sizeof *values,
                                     .count = count,
                                     .of_distances = true,
                                     .middle = rank_test_median_of(values, count)};

    return series_median(&distances);
}

int64_t rank_test_spread(const struct candidate *c)
{
    return rank_test_spread_of(c->samples, rank_test_samples(c));
}

/* Return true if `a` is faster than `b` by `percent`, and by at least z standard deviations of the
 * rank sum. */
bool rank_test_better(const struct candidate *a, const struct candidate *b, double z, int percent)
{
    const int n = rank_test_samples(a), m = rank_test_samples(b);
    double u = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            u += a->samples[i] < b->samples[j] ? 1 : a->samples[i] == b->samples[j] ? 0.5 : 0;
    const double above = u - 0.5 * n * m - 0.5, variance = n * (double)m * (n + m + 1) / 12;

    return rank_test_median(a) * 100 <= rank_test_median(b) * (100 - percent) && above > 0 &&
           above * above >= z * z * variance;
}
