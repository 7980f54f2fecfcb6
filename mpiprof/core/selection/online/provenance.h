/* Provenance of measurements in plans and in learned corrections (provenance.c). */
#pragma once
#include "base/text.h"

void provenance_add(struct text *t);
