/* Activities of a recorded run: its recorded calls, and long intervals between calls. */
#pragma once
#include "base/base.h"

struct activity {
    int64_t begin_ns, end_ns;
    int64_t first; /* the first of consecutive activities without a call between them */
    int32_t last_site;
    uint32_t is_call;
};
