/* Visibility, clock and limits, for every file. */
#pragma once
#include <stdint.h>
#include <time.h>

#define PUBLIC __attribute__((visibility("default")))
#define CALLER() __builtin_return_address(0)

enum { PATH_BYTES = 4096 };

static inline int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
