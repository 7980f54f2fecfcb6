/* Current unrecorded call of a thread, stored in its window (unrecorded_time.h, and call.c for
 * calls that are not sampled). */
#pragma once
#include "record/record.h"
#include "record/thread.h"

enum spent { SPENT_POINT_TO_POINT, SPENT_COMPLETION, SPENT_ONE_SIDED, SPENT_FILES, SPENT_NOTHING };

/* Store the current call's type in the thread's window, for readers during the call. SPENT_NOTHING
 * means a collective without a record. */
static inline void inside_mark(enum spent what)
{
    record_check();
    if (self.window != NULL || record_window())
        self.window->head.inside = (uint16_t)(what + 1);
}
