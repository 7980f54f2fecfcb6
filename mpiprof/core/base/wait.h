/* Waiting for a request with a deadline (wait.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

bool wait_until(MPI_Request *request, int64_t deadline);
void wait_cancel(MPI_Request *request);
int64_t wait_finalize_deadline(void);
