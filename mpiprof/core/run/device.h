/* Buffers that the host may not touch: device.c. */
#pragma once
#include <stdbool.h>

bool device_present(void);
bool device_holds(const void *buffer);
