/* Call sites of Python programs: python.c. */
#pragma once
#include "record/site.h"

struct site *python_site(void); /* NULL: not from Python, or not to be asked now */
void python_start(void);
void python_forget_preload(const char *value);
