/* Writes that must not kill the program (signal_guard.c). */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct stat;
struct guard {
    sigset_t mask, pending;
    int cancel;
};
void guard_begin(struct guard *g);
void guard_end(const struct guard *g);
void guard_say(const char *line, size_t length);
bool guard_file_status(int descriptor, struct stat *s);
