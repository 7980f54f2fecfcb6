/* Writes that must not kill the program (signal_guard.c). */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct stat;
struct signal_guard {
    sigset_t mask, pending;
    int cancel;
};
void signal_guard_begin(struct signal_guard *g);
void signal_guard_end(const struct signal_guard *g);
void signal_guard_say(const char *line, size_t length);
bool signal_guard_file_status(int descriptor, struct stat *s);
