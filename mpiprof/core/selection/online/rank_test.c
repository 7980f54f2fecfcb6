/* Robust statistics: medians, and a test if one set of numbers is smaller than another.
 *
 * The test is the one-sided rank-sum test of Mann and Whitney. It requires no distribution, and a
 * disturbed instance has no more weight than any other. Disturbances make measurements longer, so
 * the median of an even number of values is the lower of the two middle ones.
 */
#include "selection/online/selection.h"

int64_t rank_test_median_of(const int64_t *values, int count)
{
    int64_t sorted[LONGEST_WINDOW];

    for (int i = 0; i < count; i++) {
        int j = i;

        for (; j > 0 && sorted[j - 1] > values[i]; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = values[i];
    }
    return count > 0 ? sorted[(count - 1) / 2] : 0; /* lower median, see above */
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
    const int64_t middle = rank_test_median_of(values, count);
    int64_t distances[LONGEST_WINDOW];

    for (int i = 0; i < count; i++)
        distances[i] = values[i] > middle ? values[i] - middle : middle - values[i];
    return rank_test_median_of(distances, count);
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
