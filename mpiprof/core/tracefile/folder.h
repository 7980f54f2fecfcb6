/* The trace folder and its files (folder.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

bool folder_make(const char *path);
bool folder_make_unique(char *path, const char *wanted, const char *base);
int folder_open(const char *folder, const char *name, int flags);
const char *folder_error(int reason);
bool folder_mark(const char *folder, const char *name, const char *text);
bool folder_marked(const char *folder, const char *name, char *text, size_t room);
void folder_unmark(const char *folder, const char *name);
