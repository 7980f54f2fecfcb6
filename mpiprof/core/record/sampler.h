/* Where the program is while it is not in MPI, every few milliseconds: sampler.c. */
#pragma once
#include <stdint.h>

#include "record/site.h"

/* At a time the program was in a place; ns: for how long, 0: since the last time. On its thread. */
typedef void sampler_found(struct site *place, int64_t at, int64_t ns);

const char *sampler_start(sampler_found *found);
void sampler_drain(int64_t since);
void sampler_stop(void);
