/* Items of a recorded run: its intervals of work and its waits; and windows of time over them. */
#pragma once
#include "base/base.h"

struct item {
    int64_t begin_ns, end_ns;
    int32_t index; /* of the interval, or of the wait's group */
    int32_t key;
};

struct window {
    int64_t low, high, first, end; /* times, and items from `first` to before `end` */
};

static inline int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline double positive(double value)
{
    return value > 0 ? value : 0;
}

/* Returns the length of an item within a window. */
static inline double length_within(const struct window *w, const struct item *item)
{
    return (double)(lesser(item->end_ns, w->high) - greater(item->begin_ns, w->low));
}

/* Returns the times of an item within a window. */
static inline struct window intersection(const struct window *w, const struct item *item)
{
    return (struct window){.low = greater(item->begin_ns, w->low),
                           .high = lesser(item->end_ns, w->high)};
}
