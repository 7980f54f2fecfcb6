/* What a thread is in that has no record, as its window says: outside.h, and call.c of calls that are
 * left out. */
#pragma once
#include "record/record.h"
#include "record/thread.h"

enum spent { SPENT_POINT_TO_POINT, SPENT_COMPLETION, SPENT_ONE_SIDED, SPENT_FILES, SPENT_NOTHING };

/* The thread's window says what it is in, for those who look while it is there; SPENT_NOTHING: a
 * collective without a record. */
static inline void inside_mark(enum spent what)
{
    record_check();
    if (self.window != NULL || record_window())
        self.window->head.inside = (uint16_t)(what + 1);
}
