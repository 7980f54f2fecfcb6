/* Detection of buffers in device memory (device.c). */
#pragma once
#include <stdbool.h>

bool device_present(void);
bool device_holds(const void *buffer);
