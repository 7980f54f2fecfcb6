/* Time in calls that have no record: those of the wrappers and of management_collectives.c. */
#pragma once
#include "base/mapped.h"
#include "record/call.h"
#include "record/record.h"
#include "record/unrecorded_state.h"

static inline int64_t outside_begin(enum spent what)
{
    if (!atomic_load_explicit(&recorder.active, memory_order_relaxed) ||
        (self.call != NULL && call_within(__builtin_frame_address(0))))
        return 0;
    if (what != SPENT_NOTHING)
        inside_mark(what);
    return now_ns();
}

/* Add to the time that this thread spent in calls without a record. Only point-to-point time goes
 * to the next record, because the analysis of arrivals accounts for messages only. */
static inline void spent_add(enum spent what, int64_t ns)
{
    if (what <= SPENT_COMPLETION)
        self.outside_ns += ns;
    if (self.window == NULL && !record_window())
        return;
    record_check();
    struct chunk_head *const head = &self.window->head;

    head->inside = 0;
    switch (what) {
    case SPENT_POINT_TO_POINT: head->point_to_point_ns += ns; break;
    case SPENT_COMPLETION: head->completion_ns += ns; break;
    case SPENT_ONE_SIDED: head->one_sided_ns += ns; break;
    case SPENT_FILES: head->files_ns += ns; break;
    case SPENT_NOTHING: break;
    }
}

static inline void outside_end(int64_t since, enum spent what)
{
    if (since != 0)
        spent_add(what, now_ns() - since);
}
