/* Log of algorithm selection (selector_log.c). */
#pragma once
#include <stdbool.h>

#include "base/text.h"

bool selector_log_add(const struct text *line);
void selector_log_close(void);
