/* Mapped files that other processes may truncate (mapped.c). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

extern atomic_bool mapped_unguarded; /* true if no handler can replace lost pages (bus_error.c) */

void *mapped_add(int descriptor, off_t offset, size_t bytes, int flags);
void mapped_say_lost(const char *folder, const char *file);
bool mapped_replace(const void *address); /* called in a signal handler */
void mapped_replace_beyond(off_t end);
bool mapped_is_lost(const void *address);
void mapped_remove(void *start);
