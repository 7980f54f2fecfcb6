/* What the launcher asked for: options.c. */
#pragma once

void options_read(void);
void options_leave_environment(void);
