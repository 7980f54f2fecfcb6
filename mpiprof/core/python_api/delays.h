/* Items of a recorded run: its intervals of work and its waits. */
#pragma once
#include "base/base.h"

struct item {
    int64_t begin_ns, end_ns;
    int32_t index; /* of the interval, or of the wait's group */
    int32_t key;
};
