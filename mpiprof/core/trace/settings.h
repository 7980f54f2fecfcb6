/* How the library is set to choose its own algorithms: settings.c. */
#pragma once
#include "base/text.h"

void settings_read(struct text *t, const char *version);
void settings_end(void);
