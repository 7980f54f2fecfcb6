/* Calls and polls of which the thread had no processor for most of the time (stalled_call.c). */
#pragma once
#include "record/interval_counters.h"

/* The counters are read at the end of longer calls, and after every UNREAD_NS, so that the reading
 * before a call is seldom much older than the call. */
enum { STALLED_CALL_NS = 1000000, STALLED_POLL_NS = 20000000, UNREAD_NS = 10000000 };

void stalled_call_check(const struct counters *before, const struct counters *after,
                        int64_t enter_ns, int64_t exit_ns, uint32_t shape);
void stalled_call_check_poll(const struct counters *before, const struct counters *after,
                             int64_t since_ns, int64_t now, uint32_t shape);
void stalled_call_end(void);
