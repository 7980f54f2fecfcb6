/* Samples of the program's location outside MPI (sampler.c). */
#pragma once
#include <stdint.h>

#include "callsite/site.h"

/* Callback for a sample at a time in ns. ns is its duration, or 0 for the time since the last
 * sample. It runs on the sampling thread, or for kernel samples in sampler_drain. */
typedef void sampler_found(struct site *place, int64_t at, int64_t ns);

const char *sampler_start(sampler_found *found);
void sampler_drain(int64_t since);
void sampler_stop(void);
