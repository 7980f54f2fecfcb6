/* Growing text, JSON strings and shell words. Numbers have a decimal point in all locales. Text
 * that does not fit in memory is dropped, because readers check their lines. A text is used by one
 * thread at a time. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

enum { MOST_READ = 1 << 24 };

/* The program's locale may have a decimal comma, which JSON does not allow. */
static locale_t point_locale(void)
{
    static _Atomic(locale_t) points;

    if (atomic_load(&points) == (locale_t)0)
        atomic_store(&points, newlocale(LC_NUMERIC_MASK, "C", (locale_t)0));
    return atomic_load(&points);
}

static bool text_reserve(struct text *t, size_t more)
{
    if (t->length + more + 1 <= t->room)
        return true;
    const size_t room = 2 * (t->length + more + 64);
    char *const bytes = memory_resize(t->bytes, t->room, room);

    t->cut |= bytes == NULL;
    if (bytes == NULL)
        return false;
    t->bytes = bytes;
    t->room = room;
    return true;
}

void text_format(struct text *t, const char *format, va_list arguments)
{
    va_list again;

    va_copy(again, arguments);
    const locale_t before = uselocale(point_locale());
    const int length = vsnprintf(NULL, 0, format, arguments);
    if (length >= 0 && text_reserve(t, (size_t)length)) {
        vsnprintf(t->bytes + t->length, (size_t)length + 1, format, again);
        t->length += (size_t)length;
    }
    uselocale(before);
    va_end(again);
}

void text_add(struct text *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    text_format(t, format, arguments);
    va_end(arguments);
}

/* Append bytes of any value, and a terminating zero. */
void text_bytes(struct text *t, const char *bytes, size_t length)
{
    if (length == 0 || !text_reserve(t, length))
        return;
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = '\0';
}

int text_scan(const char *s, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const locale_t before = uselocale(point_locale());
    const int found = vsscanf(s, format, arguments);

    uselocale(before);
    va_end(arguments);
    return found;
}

void text_json(struct text *t, const char *string, long length)
{
    const size_t bytes = length >= 0 ? (size_t)length : strlen(string);

    text_add(t, "\"");
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)string[i];

        if (c == '"' || c == '\\')
            text_add(t, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            text_add(t, "\\u%04x", c);
        else if (text_reserve(t, 1)) /* bytes above 0x7f are UTF-8 and unchanged */
            t->bytes[t->length++] = (char)c;
    }
    text_add(t, "\"");
}

/* Append a word that a shell reads back, in the format of mpiprof/interface/shell_hints.py. Nothing
 * in it is executed, and it stays on one line. */
void text_quoted(struct text *t, const char *word)
{
    const char *const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "@%+=:,./-_";
    bool control = false;

    if (*word != '\0' && word[strspn(word, plain)] == '\0') {
        text_add(t, "%s", word);
        return;
    }
    for (const char *c = word; *c != '\0'; c++)
        control |= (unsigned char)*c < 0x20 || *c == 0x7f;
    text_add(t, control ? "$'" : "'");
    for (const char *c = word; *c != '\0'; c++) {
        if (control && ((unsigned char)*c < 0x20 || *c == 0x7f))
            text_add(t, "\\x%02x", (unsigned char)*c);
        else if (control && (*c == '\'' || *c == '\\'))
            text_add(t, "\\%c", *c);
        else if (*c == '\'')
            text_add(t, "'\"'\"'");
        else if (text_reserve(t, 1)) /* as in text_json */
            t->bytes[t->length++] = *c;
    }
    text_add(t, "'");
}

void text_free(struct text *t)
{
    memory_free(t->bytes);
    *t = (struct text){0};
}

/* Append the content of a file, up to MOST_READ bytes. Returns false if the file cannot be read. */
bool text_read(struct text *t, const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    char part[512];
    ssize_t length;

    if (descriptor < 0)
        return false;
    while (t->length < MOST_READ &&
           ((length = read(descriptor, part, sizeof part)) > 0 || (length < 0 && errno == EINTR)))
        text_add(t, "%.*s", length > 0 ? (int)length : 0, part);
    close(descriptor);
    return t->length > 0;
}
