/* Settings of the MPI library and values from the launcher (library_settings.c). */
#pragma once
#include "base/text.h"

void settings_read(struct text *t, const char *version);
void settings_switches(struct text *t); /* for the process's line */
int settings_on_node(void);             /* number of this node's processes; 0 if unknown */
int settings_rank(void);
