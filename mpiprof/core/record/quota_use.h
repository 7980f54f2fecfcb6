/* The quota of the process's control group during the run (quota_use.c). */
#pragma once
#include <stdint.h>

void quota_use_start(void);
void quota_use_check(int64_t now);
void quota_use_end(void);
