/* Link parameters from the times of messages of several sizes (alpha_beta_fit.c). */
#pragma once

enum { MOST_SIZES = 24 };

/* ns, ns per byte, bytes: t(m) = alpha + beta min(m, buffer) + pace max(m - buffer, 0) */
struct link {
    double alpha, beta, pace, buffer;
};

struct alpha_beta_fit { /* ns by size, sizes ascending */
    int count;
    const int *sizes;
    double one_way[MOST_SIZES], both_ways[MOST_SIZES];
};

void alpha_beta_fit_order(struct alpha_beta_fit *l);
struct link alpha_beta_fit_link(const struct alpha_beta_fit *l);
