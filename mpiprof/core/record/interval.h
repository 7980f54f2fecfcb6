/* Intervals between the calls of a thread. */
#pragma once
#include "callsite/callsite.h"
#include "record/call.h"
#include "record/interval_counters.h"
#include "record/record.h"
#include "record/stalled_call.h"

/* Shorter intervals are not logged. One reading of the counters takes about 2 us. */
enum { INTERVAL_NS = 200000 };
#define NO_SHAPE UINT32_MAX

void interval_start(void);
void interval_end(void);
int64_t interval_log(struct interval *i, int64_t enter_ns, uint32_t shape);
void interval_read_counters(struct interval *i);
void interval_check_call(struct interval *i, int64_t exit_ns, uint32_t shape);
void interval_check_poll(struct interval *i, int64_t since_ns, int64_t now, uint32_t shape);

static inline uint32_t interval_shape(const struct call_shape *shape)
{
    return shape != NULL ? shape->id : NO_SHAPE;
}

/* Return the shape of the thread's last call. */
static inline uint32_t interval_left_shape(void)
{
    return self.interval != NULL ? self.interval->shape : NO_SHAPE;
}

/* Add the samples of --where since the last call to the interval before a call on messages. */
static inline void interval_add_samples(uint32_t shape)
{
    if (presite_sample_is_on && self.interval != NULL && self.interval->inside == NULL)
        presite_sample_split(self.interval->shape, shape);
}

/* Begin a call, and log the interval before it if it was long. Returns the begin of the call:
 * `enter_ns`, or a later time after the log was written. */
static inline int64_t interval_enter(const void *call, int64_t enter_ns, uint32_t shape)
{
    struct interval *const i = self.interval;

    if (i == NULL)
        return enter_ns;
    if (i->inside != NULL) {
        if (i->inside > call && unwind_is_live(i->inside)) /* a callback made this call */
            return enter_ns;
        i->left_ns = INT64_MAX; /* the end of an abandoned call is unknown */
    }
    i->inside = call;
    i->entered_ns = enter_ns;
    return enter_ns - i->left_ns >= INTERVAL_NS ? interval_log(i, enter_ns, shape) : enter_ns;
}

/* End a call. Its time until the next call becomes an interval. The counters are read if that is
 * likely to be long, or if the call was. exit_ns: INT64_MAX if unknown. */
static inline void interval_leave(const void *call, int64_t exit_ns, uint32_t shape)
{
    struct interval *const i = self.interval;

    if (i == NULL || i->inside != call)
        return;
    i->inside = NULL;
    i->left_ns = exit_ns;
    i->shape = shape;
    if (presite_sample_is_on)
        presite_sample_left();
    if (exit_ns == INT64_MAX)
        return;
    if (exit_ns - i->entered_ns >= STALLED_CALL_NS)
        interval_check_call(i, exit_ns, shape);
    else if (exit_ns - i->last.at_ns >= INTERVAL_NS &&
             ((i->expected >> shape % 64 & 1) != 0 || exit_ns - i->last.at_ns >= UNREAD_NS))
        interval_read_counters(i);
}

/* A call whose end is not measured: the interval after it is not logged. */
static inline void interval_forget(void)
{
    if (self.interval != NULL)
        self.interval->left_ns = INT64_MAX;
}
