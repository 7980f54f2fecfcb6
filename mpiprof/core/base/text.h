/* Growing text, JSON, and shell words (text.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct text {
    char *bytes;
    size_t length, room;
    bool cut; /* memory was short and some text is missing */
};
void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int text_scan(const char *s, const char *format, ...) __attribute__((format(scanf, 2, 3)));
void text_bytes(struct text *t, const char *bytes, size_t length);
void text_json(struct text *t, const char *string, long length);
void text_quoted(struct text *t, const char *word);
void text_free(struct text *t);
