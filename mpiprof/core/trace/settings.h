/* How the library is set to choose its own algorithms, and what the launcher tells: settings.c. */
#pragma once
#include "base/text.h"

void settings_read(struct text *t, const char *version);
void settings_switches(struct text *t); /* of the process's line */
int settings_on_node(void); /* processes that the launcher has started on this node; 0: not known */
int settings_rank(void);
