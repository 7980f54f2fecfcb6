/* Options that the launcher passes in environment variables (options.c). */
#pragma once
#include <stdint.h>

void options_read(void);
uint64_t options_compared(void);
void options_leave_environment(void);
