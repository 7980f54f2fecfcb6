/* Items of a recorded run: its intervals of work and its waits. */
#pragma once
#include "base/base.h"

struct item {
    int64_t begin_ns, end_ns;
    int64_t index; /* of the interval, or of the wait's group */
    int64_t key;
};
