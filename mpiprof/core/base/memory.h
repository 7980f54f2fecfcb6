/* Small allocations, with a reserve for when memory is exhausted (memory.c). Independent of MPI. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { MEMORY_LEFT_MB = 32 }; /* address space that must remain for the MPI library */

void memory_start(int processes);
bool memory_had(void);
void *memory_get(size_t bytes); /* zeroed, like calloc */
void *memory_resize(void *memory, size_t before, size_t bytes);
void memory_free(void *memory);
char *memory_text(const char *text);
/* whole pages of static memory */
void memory_give_back(void *memory, size_t bytes);
bool memory_short(void);
bool memory_is_left(size_t bytes);
