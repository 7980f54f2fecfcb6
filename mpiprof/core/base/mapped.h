/* Mapped files that other processes can truncate: mapped.c. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

extern atomic_bool mapped_unguarded; /* no handler can replace what is lost (bus_error.c) */

void *mapped_add(int descriptor, off_t offset, size_t bytes, int flags);
void mapped_say_lost(const char *folder, const char *file);
bool mapped_replace(const void *address); /* in a signal handler */
void mapped_replace_beyond(off_t end);
bool mapped_is_lost(const void *address);
void mapped_remove(void *start);
