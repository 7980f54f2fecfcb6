/* Measured corrections of the model, for later keys and later jobs (model_correction.c). */
#pragma once
#include "selection/online/selection.h"

void model_correction_open(void);
double model_correction_factor(const struct variant *v, const struct algorithm *like, int64_t bytes,
                               int members);
void model_correction_note(const struct selection *s);
