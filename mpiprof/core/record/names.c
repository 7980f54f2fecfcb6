/* What messages and plans call a call site: app.c:12, or what is known of it.
 *
 * A Python site brings its line along. A native one is looked up in the module's line table, which
 * may be large: not while the program communicates, but where something is written for people, at
 * the end or where a communicator ends. Until then, and without a line table, it is its symbol, or
 * its offset in the module. Names live as long as the process.
 *
 * Threads: any; names are made and looked up under recorder.lock, and read without it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "base/recorder.h"
#include "base/text.h"
#include "record/callsite.h"
#include "record/lines.h"
#include "record/names.h"
#include "record/site.h"

enum { MOST_AT_ONCE = 256 };

struct name {
    struct name *next;
    const char *_Atomic text;
    const char *frame; /* of a native site that no rule names, as the tables have it */
    bool looked_up;
    bool is_place; /* a line of the program, which a plan can name */
};
static struct name *names; /* of all sites, under recorder.lock */

/* {"module": "/a/app", "offset": 4711, ... The file's name is as in callsite_of_program. */
static bool module_of(const char *frame, char *module, size_t room, uint64_t *offset)
{
    static const char head[] = "{\"module\": \"", middle[] = "\", \"offset\": ";
    const char *const end = strstr(frame, middle);

    if (end == NULL || strncmp(frame, head, sizeof head - 1) != 0)
        return false;
    snprintf(module, room, "%.*s", (int)(end - frame - (ptrdiff_t)sizeof head + 1),
             frame + sizeof head - 1);
    *offset = strtoull(end + sizeof middle - 1, NULL, 10);
    return true;
}

/* Of one frame or more; names of C++ may have braces. */
static size_t first_length(const char *frame)
{
    const char *const next = strstr(frame, "}, {\"module\": ");

    return next != NULL ? (size_t)(next - frame) + 1 : strlen(frame);
}

/* A symbol and an offset, of C++ as its author wrote it where the program has what can tell. */
static void symbol_add(struct text *t, const char *symbol)
{
    char *(*demangle)(const char *, char *, size_t *, int *) = NULL;
    char name[1000];
    int status = -1;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(symbol, "+\""), symbol);
    if (strncmp(name, "_Z", 2) == 0)
        *(void **)&demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *const readable = demangle != NULL ? demangle(name, NULL, NULL, &status) : NULL;
    const char *const offset = symbol + strlen(name);

    text_add(t, "%s%.*s", readable != NULL ? readable : name, (int)strcspn(offset, "\""), offset);
    free(readable);
}

/* What can be said at once. */
static char *text_of(const char *frame)
{
    static const char middle[] = "\", \"line\": ", symbol[] = "\"symbol\": \"";
    const char *const end = strstr(frame, middle), *const word = strstr(frame, symbol);
    char module[PATH_BYTES];
    struct text t = {0};
    uint64_t offset;

    if (end != NULL && strncmp(frame, "{\"file\"", 7) == 0) {
        const char *file = end;

        while (file > frame && file[-1] != '/' && file[-1] != '"')
            file--;
        text_add(&t, "%.*s:%d", (int)(end - file), file, atoi(end + sizeof middle - 1));
    } else if (word != NULL && word < frame + first_length(frame)) {
        symbol_add(&t, word + sizeof symbol - 1);
    } else if (module_of(frame, module, sizeof module, &offset)) {
        const char *const slash = strrchr(module, '/');

        text_add(&t, "%s+0x%llx", slash != NULL ? slash + 1 : module, (unsigned long long)offset);
    }
    return t.bytes;
}

/* `frame` is the innermost one of a new site, `known` what a rule calls it or NULL. */
void names_meet(struct site *s, const char *frame, const char *known)
{
    struct name *const n = calloc(1, sizeof *n);
    const bool native = strncmp(frame, "{\"module\"", 9) == 0;

    if (n == NULL)
        return;
    n->text = known != NULL ? known : text_of(frame);
    n->is_place = known != NULL || !native;
    if (known == NULL && native)
        n->frame = strndup(frame, first_length(frame));
    n->next = names;
    names = n;
    s->name = n;
}

/* Looks up those of one module. */
static void module_resolve(struct name *first)
{
    struct line_query queries[MOST_AT_ONCE];
    struct name *wanted[MOST_AT_ONCE];
    char module[PATH_BYTES], other[PATH_BYTES];
    uint64_t offset;
    int count = 0;

    first->looked_up = !module_of(first->frame, module, sizeof module, &offset);
    if (first->looked_up)
        return;
    const bool program = callsite_of_program(first->frame);

    for (struct name *n = first; n != NULL && count < MOST_AT_ONCE; n = n->next)
        if (n->frame != NULL && !n->looked_up &&
            module_of(n->frame, other, sizeof other, &offset) && strcmp(module, other) == 0) {
            queries[count] = (struct line_query){.offset = offset};
            wanted[count++] = n;
        }
    lines_find(module, queries, count);
    for (int i = 0; i < count; i++) {
        if (queries[i].place != NULL) {
            wanted[i]->text = queries[i].place;
            wanted[i]->is_place = program;
        }
        wanted[i]->looked_up = true;
    }
}

/* Before names are written for people. */
void names_resolve(void)
{
    recorder_lock();
    for (struct name *n = names; n != NULL; n = n->next)
        if (n->frame != NULL && !n->looked_up)
            module_resolve(n);
    recorder_unlock();
}

const char *names_text(const struct site *s)
{
    return s->name != NULL && s->name->text != NULL ? s->name->text : "?";
}

/* What a plan may call it; NULL: nothing. Under recorder.lock. */
const char *names_place(const struct site *s)
{
    return s->name != NULL && s->name->is_place ? s->name->text : NULL;
}

/* For those who look it up later: the frame as the tables have it; NULL: the name says all. */
const char *names_frame(const struct site *s)
{
    return s->name != NULL ? s->name->frame : NULL;
}
