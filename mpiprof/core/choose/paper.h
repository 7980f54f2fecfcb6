/* The choice of a reduction's protocol by processes and bytes: paper.c. */
#pragma once
#include <stdint.h>

const char *paper_protocol(const char *operation, int size, int64_t bytes);
