/* Names of call sites in messages and plans (site_names.c). */
#pragma once
#include "callsite/site.h"

void site_name_meet(struct site *s, const char *frame, const char *known);
void site_name_resolve(void);
const char *site_name_text(const struct site *s);
const char *site_name_place(const struct site *s);
const char *site_name_frame(const struct site *s);
