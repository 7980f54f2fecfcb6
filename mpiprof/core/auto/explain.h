/* What was tried and why, for people and for the trace: explain.c. */
#pragma once
#include "auto/selection.h"

void explain_start(void);
void explain_key(struct selection *s, const struct execution *e);
void explain_site(struct selection *s, const struct site *site);
void explain_events(struct selection *s);
void explain_end(struct selection *s);
void explain_finish(MPI_Comm comm);
