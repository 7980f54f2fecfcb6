/* Table of call sites, native or Python.
 *
 * Sites live as long as the process. They are created under recorder.lock and looked up without it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/recorder.h"
#include "callsite/callsite.h"
#include "tracefile/tracefile.h"

enum { MOST_SITES = 1 << 20 };

static uint32_t sites_made;
static struct site overflow; /* site 0, for calls beyond the table */
SPARSE char site_folder[PATH_BYTES];

/* Remember the working directory; called before MPI_Init. */
void site_remember_folder(void)
{
    if (getcwd(site_folder, sizeof site_folder) == NULL)
        site_folder[0] = '\0';
}

static bool site_write(uint32_t id, const char *frames)
{
    struct text t = {0};

    text_add(&t, "{\"rank\": %d, \"site\": %u, \"frames\": [%s]}\n", recorder.rank, id, frames);
    const bool written = file_write_line(&t);

    text_free(&t);
    return written;
}

/* Return the site of calls beyond the table, and write its row once. */
static struct site *table_is_full(void)
{
    static bool written;

    if (!written)
        site_write(0, "{\"file\": \"(more call sites than the table holds)\", \"line\": 0, "
                      "\"function\": \"\"}");
    written = true;
    return &overflow;
}

/* Return the length of the first frame. In a name, a quote has a backslash before it. */
static size_t first_length(const char *frames)
{
    const char *const next = strstr(frames, "}, {\"");

    return next != NULL ? (size_t)(next - frames) + 1 : strlen(frames);
}

/* Return a new site, or that of another thread for this key. Never returns NULL. */
struct site *site_new(struct map *m, uint64_t key, const struct text *frames)
{
    recorder_lock();
    struct site *s = map_get(m, key);

    if (s == NULL && frames->bytes != NULL && sites_made < MOST_SITES &&
        (s = calloc(1, sizeof *s)) != NULL) {
        s->id = ++sites_made; /* not reused, even if a later step fails */
        if (!site_write(s->id, frames->bytes) || !map_put(m, key, s)) {
            free(s);
            s = NULL;
        } else if (recorder.switching) {
            s->frame = strndup(frames->bytes, first_length(frames->bytes));
            hooks.site_met(s, frames->bytes);
        }
    }
    if (s == NULL)
        s = table_is_full();
    recorder_unlock();
    return s;
}

/* Append the last component of the path that ends at `end` in a frame. */
static void file_add(struct text *t, const char *frame, const char *end)
{
    const char *file = end;

    while (file > frame && file[-1] != '/' && file[-1] != '"')
        file--;
    text_add(t, "%.*s", (int)(end - file), file);
}

/* Append the name of a site for a message: app.py:12 for Python, or symbol or offset of a native
 * site. The reports look up the lines of native sites. */
void site_name(const struct site *s, struct text *name)
{
    static const char line[] = "\", \"line\": ", offset[] = "\", \"offset\": ";
    static const char symbol[] = "\"symbol\": \"";
    const char *const frame = s->frame != NULL ? s->frame : "";
    const char *at;

    if ((at = strstr(frame, line)) != NULL) {
        file_add(name, frame, at);
        text_add(name, ":%d", atoi(at + sizeof line - 1));
    } else if ((at = strstr(frame, symbol)) != NULL) {
        at += sizeof symbol - 1;
        text_add(name, "%.*s", (int)strcspn(at, "\""), at);
    } else if ((at = strstr(frame, offset)) != NULL) {
        file_add(name, frame, at);
        text_add(name, "+0x%llx", strtoull(at + sizeof offset - 1, NULL, 10));
    } else {
        text_add(name, "?");
    }
}
