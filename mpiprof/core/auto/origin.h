/* Provenance of measurements in plans and in learned corrections (provenance.c). */
#pragma once
#include "base/text.h"

void origin_add(struct text *t);
