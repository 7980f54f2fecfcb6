/* Where something was measured, for plans and what is learned: origin.c. */
#pragma once
#include "base/text.h"

void origin_add(struct text *t);
