/* Names of call sites in messages and plans, such as app.c:12.
 *
 * A Python site contains its line. A native site is looked up in the module's line table, which may
 * be large. So the lookup runs only when text is written for people, at the end or when a
 * communicator ends, not while the program communicates. Until then, or without a line table, the
 * name is the symbol or the offset in the module. Names live as long as the process.
 *
 * Threads: any; names are created and looked up under recorder.lock, and read without it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "base/recorder.h"
#include "base/text.h"
#include "callsite/callsite.h"
#include "callsite/dwarf_line.h"
#include "callsite/site.h"
#include "callsite/site_names.h"

enum { MOST_AT_ONCE = 256 };

struct name {
    struct name *next;
    const char *_Atomic text;
    const char *frame; /* table text of a native site that no rule names */
    bool looked_up;
    bool is_place; /* a source line of the program, which a plan can name */
};
static struct name *names; /* of all sites; protected by recorder.lock */

/* Parse {"module": "/a/app", "offset": 4711, ... The path is the one that callsite_of_program
 * expects. */
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

/* Return the length of the first frame. C++ names may contain braces. */
static size_t first_length(const char *frame)
{
    const char *const next = strstr(frame, "}, {\"module\": ");

    return next != NULL ? (size_t)(next - frame) + 1 : strlen(frame);
}

/* Add a symbol and its offset, demangled if the program contains a C++ demangler. */
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

/* Return the name that needs no line table. */
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

/* Name a new site. `frame` is its innermost frame, `known` its name in a rule or NULL. */
void site_name_meet(struct site *s, const char *frame, const char *known)
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

/* Look up all unresolved names of the module of `first`. */
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
    dwarf_line_find(module, queries, count);
    for (int i = 0; i < count; i++) {
        if (queries[i].place != NULL) {
            wanted[i]->text = queries[i].place;
            wanted[i]->is_place = program;
        }
        wanted[i]->looked_up = true;
    }
}

/* Look up all names before text is written for people. */
void site_name_resolve(void)
{
    recorder_lock();
    for (struct name *n = names; n != NULL; n = n->next)
        if (n->frame != NULL && !n->looked_up)
            module_resolve(n);
    recorder_unlock();
}

const char *site_name_text(const struct site *s)
{
    return s->name != NULL && s->name->text != NULL ? s->name->text : "?";
}

/* Return the site's name for a plan, or NULL if it has none. The caller holds recorder.lock. */
const char *site_name_place(const struct site *s)
{
    return s->name != NULL && s->name->is_place ? s->name->text : NULL;
}

/* Return the frame's table text for later lookup, or NULL if the name is complete. */
const char *site_name_frame(const struct site *s)
{
    return s->name != NULL ? s->name->frame : NULL;
}
