/* Lock between creations of communicators by the program and by mpiprof (comm_create_lock.c). */
#pragma once
#include <stdbool.h>

bool comm_create_lock_has_threads(void);
void comm_create_lock_begin(bool *under_way);
void comm_create_lock_end(bool *under_way);
void comm_create_lock_note_later(void);
bool comm_create_lock_later(void);
bool comm_create_lock_alone(void);
void comm_create_lock_over(void);
