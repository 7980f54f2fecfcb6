/* Agreement on the size of a broadcast (bcast_size_agreement.c). */
#pragma once
#include "run/execution.h"

enum { LEAD_TAGS = 16383 }; /* number of tags for data messages, and again for size messages */

void lead_begin(struct execution *e);
bool lead_again(struct execution *e);
void lead_end(struct execution *e);
int lead_wait(struct execution *e, MPI_Request *request, MPI_Status *status);
bool lead_is_short(struct execution *e, int64_t expected, int64_t bytes);
int64_t lead_length(const struct execution *e, int64_t offset, int64_t length);
