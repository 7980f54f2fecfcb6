/* Reading a machine table: table.c. */
#pragma once
#include "timing/alpha_beta_fit.h"

struct link table_slowest(const char *table);
