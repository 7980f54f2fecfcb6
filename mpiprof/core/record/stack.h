/* Stack unwinding (unwind.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct span {
    uintptr_t low, high;
};
bool stack_holds(const void *address);
struct span stack_caller(void);
int stack_frames(const void **found, int most);
