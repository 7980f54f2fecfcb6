/* Names of call sites in messages and plans (site_names.c). */
#pragma once
#include "record/site.h"

void names_meet(struct site *s, const char *frame, const char *known);
void names_resolve(void);
const char *names_text(const struct site *s);
const char *names_place(const struct site *s);
const char *names_frame(const struct site *s);
