/* Settings of the MPI library and values from the launcher (library_settings.c). */
#pragma once
#include "base/text.h"

void library_setting_read(struct text *t, const char *version);
void library_setting_switches(struct text *t); /* for the process's line */
int library_setting_on_node(void);             /* number of this node's processes; 0 if unknown */
int library_setting_rank(void);
