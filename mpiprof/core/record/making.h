/* Who is making communicators: making.c. */
#pragma once
#include <stdbool.h>

void making_begin(bool *under_way);
void making_end(bool *under_way);
bool making_alone(void);
void making_over(void);
