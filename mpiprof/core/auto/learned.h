/* Measured corrections of the model, for later keys and later jobs (model_correction.c). */
#pragma once
#include "auto/selection.h"
#include "base/native.h"

void learned_open(void);
double learned_factor(const struct variant *v, const struct algorithm *like, int64_t bytes,
                      int members);
void learned_note(const struct selection *s);
void learned_finish(MPI_Comm comm);
