/* Agreement on the size of a broadcast (bcast_size_agreement.c). */
#pragma once
#include "executor/execution.h"

enum { LEAD_TAGS = 16383 }; /* number of tags for data messages, and again for size messages */

void bcast_size_agreement_begin(struct execution *e);
bool bcast_size_agreement_again(struct execution *e);
void bcast_size_agreement_end(struct execution *e);
int bcast_size_agreement_wait(struct execution *e, MPI_Request *request, MPI_Status *status);
bool bcast_size_agreement_is_short(struct execution *e, int64_t expected, int64_t bytes);
int64_t bcast_size_agreement_length(const struct execution *e, int64_t offset, int64_t length);
