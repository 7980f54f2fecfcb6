/* Log of algorithm selection (selector_log.c). */
#pragma once
#include <stdbool.h>

#include "base/text.h"

void selector_log_create(void);
bool selector_log_add(const struct text *line);
void selector_log_close(void);
