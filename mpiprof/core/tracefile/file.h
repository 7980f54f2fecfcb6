/* Files of the trace (file.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "tracefile/event.h"

bool file_open(const char *folder, int rank, const char *node);
const char *file_name(void);
struct chunk *file_window(uint32_t thread);
bool file_append(const struct chunk *chunk);
void file_seal(struct chunk *window);
bool file_full(void);
unsigned file_chunks(void);
bool file_write(int descriptor, const struct text *t);
bool file_line(const struct text *line);
void file_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void file_check(void);
void file_close(void);
