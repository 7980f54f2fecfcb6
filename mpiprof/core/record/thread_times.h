/* Processor time of the process's threads by name (thread_times.c). */
#pragma once
#include <stdint.h>

enum { BUSY_THREADS_NS = 1000000 }; /* in an interval, for a reading at its end */

void thread_times_read(int64_t at_ns);
