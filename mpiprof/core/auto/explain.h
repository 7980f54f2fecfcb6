/* Reports of probing and choices, for users and for the trace (explain.c). */
#pragma once
#include <stdint.h>

#include "auto/selection.h"
#include "auto/told.h"

struct told *explain_key(const struct execution *e, uint64_t key);
void explain_site(struct told *t, const struct site *site);
void explain_events(struct selection *s);
void explain_end(struct selection *s);
void explain_finish(MPI_Comm comm);
