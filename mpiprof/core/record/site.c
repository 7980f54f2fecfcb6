/* Call sites, as rows of the tables: what all kinds of them have in common.
 *
 * They live as long as the process; they are made under recorder.lock and found without it.
 */
#include <stdlib.h>

#include "base/map.h"
#include "base/recorder.h"
#include "base/text.h"
#include "record/hooks.h"
#include "record/site.h"
#include "trace/file.h"

enum { MOST_SITES = 1 << 20 };

static uint32_t sites_made;
static struct site overflow; /* id 0 */

static bool site_write(uint32_t id, const struct text *frames)
{
    struct text t = {0};

    text_add(&t, "{\"rank\": %d, \"site\": %u, \"frames\": [%s]}\n", recorder.rank, id,
             frames->bytes);
    const bool written = file_line(&t);

    text_free(&t);
    return written;
}

/* The site of calls beyond the table. */
static struct site *too_many(void)
{
    static bool said;
    struct text t = {0};

    if (!said) {
        said = true;
        text_add(&t, "{\"file\": \"(more call sites than the table holds)\", \"line\": 0, "
                     "\"function\": \"\"}");
        site_write(0, &t);
        text_free(&t);
    }
    return &overflow;
}

/* A new site, or the one that another thread has just made; never NULL. */
struct site *site_new(struct map *m, uint64_t key, const struct text *frames)
{
    recorder_lock();
    struct site *s = map_get(m, key);

    if (s == NULL && frames->bytes != NULL && sites_made < MOST_SITES &&
        (s = calloc(1, sizeof *s)) != NULL) {
        s->id = ++sites_made; /* never used again, whatever fails */
        if (!site_write(s->id, frames) || !map_put(m, key, s)) {
            free(s);
            s = NULL;
        } else if (recorder.by_site || recorder.names_sites) {
            hooks.site_met(s, frames->bytes);
        }
    }
    if (s == NULL)
        s = too_many();
    recorder_unlock();
    return s;
}
