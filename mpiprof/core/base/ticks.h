/* The processor's counter of time: read in a third of the time of the clock, but only good for
 * differences within a thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "base/base.h"

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t ticks_now(void)
{
    return __rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t ticks_now(void)
{
    uint64_t value;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
#else
static inline uint64_t ticks_now(void)
{
    return (uint64_t)now_ns();
}
#endif

/* Return false if the kernel forbids the process to read the counter. */
static inline bool ticks_are_allowed(void)
{
#if defined(__x86_64__)
    int mode = 0;

    return prctl(PR_GET_TSC, &mode, 0, 0, 0) != 0 || mode == PR_TSC_ENABLE;
#else
    return true;
#endif
}
