/* SIGBUS in mapped files that were truncated (bus_error.c). */
#pragma once
#include <signal.h>
#include <stdbool.h>

void bus_error_watch(void);
void bus_error_adopt(struct sigaction *old);
void bus_error_forget(void);
