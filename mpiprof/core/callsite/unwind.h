/* Stack unwinding (unwind.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct span {
    uintptr_t low, high;
};
bool unwind_holds(const void *address);
struct span unwind_caller(void);
int unwind_frames(const void **found, int most);
