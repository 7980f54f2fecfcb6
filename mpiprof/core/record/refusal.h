/* Detection of calls that the library rejected before its first message (refusal.c). */
#pragma once
#include <stdbool.h>

struct creation;

bool refusal_by_class(int error);
bool refusal_of_creation(const struct creation *c, int error);
