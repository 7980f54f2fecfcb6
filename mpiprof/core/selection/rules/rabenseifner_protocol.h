/* Protocol of a reduction by number of processes and bytes (rabenseifner_protocol.c). */
#pragma once
#include <stdint.h>

const char *rabenseifner_protocol(const char *operation, int size, int64_t bytes);
