/* Making folders: folder.c. */
#pragma once
#include <stdbool.h>

bool folder_make(const char *path);
bool folder_make_unique(char *path, const char *wanted, const char *base);
