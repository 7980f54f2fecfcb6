/* Reading a machine table: table.c. */
#pragma once
#include "machine/line.h"

struct link table_slowest(const char *table);
