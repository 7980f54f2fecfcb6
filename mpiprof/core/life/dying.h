/* Recording of the signal that ends a rank (fatal_signals.c). */
#pragma once
#include <signal.h>
#include <stdbool.h>

int dying_action(int number, const struct sigaction *new, struct sigaction *old);
bool dying_is_deadly(const struct sigaction *a);
void dying_end(int number, siginfo_t *info, const struct sigaction *otherwise);
bool dying_restore(int number, struct sigaction *a);
void dying_watch(void);
void dying_forget(void);
