/* memory.c: small memory that is had even where the system gives none. Knows no MPI. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { MEMORY_LEFT_MB = 32 }; /* to the MPI library, of address space */

void memory_start(int processes);
bool memory_had(void);
void *memory_get(size_t bytes); /* zeroed, as by calloc */
void *memory_resize(void *memory, size_t before, size_t bytes);
void memory_free(void *memory);
char *memory_text(const char *text);               /* a copy */
void memory_give_back(void *memory, size_t bytes); /* its whole pages */
bool memory_short(void);
bool memory_is_left(size_t bytes);
