/* Recording of the signal that ends a rank (fatal_signals.c). */
#pragma once
#include <signal.h>
#include <stdbool.h>

int fatal_signal_action(int number, const struct sigaction *new, struct sigaction *old);
bool fatal_signal_is_deadly(const struct sigaction *a);
void fatal_signal_end(int number, siginfo_t *info, const struct sigaction *otherwise);
bool fatal_signal_restore(int number, struct sigaction *a);
void fatal_signal_watch(void);
void fatal_signal_forget(void);
