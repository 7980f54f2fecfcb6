/* Reports of probing and choices, for users and for the trace (explain.c). */
#pragma once
#include <stdint.h>

#include "selection/online/report_info.h"
#include "selection/online/selection.h"

struct report_info *explain_key(const struct execution *e, uint64_t key);
void explain_site(struct report_info *t, const struct site *site);
void explain_events(struct selection *s);
void explain_end(struct selection *s);
void explain_finish(MPI_Comm comm);
