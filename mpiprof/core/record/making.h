/* Lock between creations of communicators by the program and by mpiprof (comm_create_lock.c). */
#pragma once
#include <stdbool.h>

bool making_has_threads(void);
void making_begin(bool *under_way);
void making_end(bool *under_way);
void making_note_later(void);
bool making_later(void);
bool making_alone(void);
void making_over(void);
