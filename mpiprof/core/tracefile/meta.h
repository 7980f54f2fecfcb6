/* Metadata written once at the start (meta.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

const char *meta_library(void); /* name and version of the library, in one line */
void meta_now(char *stamp, size_t room);
void meta_process(const char *host, const char *node);
bool meta_read(const char *path, struct text *t);
bool meta_write(bool with_world, const struct text *machine, const char *skipped);
