/* A variant: an algorithm with its parameters, in one spelling.
 *
 *     pipelined_ring:block_size=65536:blocks=equal:order=both
 *
 * is what people write, what rules say (choose/rules.c), what traces and plans have. The same in
 * Python: model/variant.py.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/recorder.h"
#include "base/text.h"
#include "run/variant.h"
#include "schedule/schedule.h"

static const char *const orders[] = {"ranks", "spread", "nodes", "both"};
enum { ORDERS = sizeof orders / sizeof *orders };

bool variant_same(const struct variant *a, const struct variant *b)
{
    return a->algorithm == b->algorithm && a->block_size == b->block_size && a->order == b->order &&
           a->equal_blocks == b->equal_blocks && a->late == b->late;
}

void variant_apply(const struct variant *v, struct problem *p)
{
    p->block_size = v->block_size;
    p->order = v->order;
    p->equal_blocks = v->equal_blocks;
    p->late = v->late;
}

const char *variant_order(const struct variant *v)
{
    return orders[v->order & (ORDERS - 1)];
}

/* What is not said is the algorithm's own choice. */
void variant_add(struct text *t, const char *name, const struct variant *v)
{
    text_add(t, "%s", name);
    if (v->block_size > 0)
        text_add(t, ":block_size=%lld", (long long)v->block_size);
    if (v->equal_blocks)
        text_add(t, ":blocks=equal");
    if (v->order != ORDER_RANKS)
        text_add(t, ":order=%s", variant_order(v));
    if (v->late > 0)
        text_add(t, ":late=%d", v->late);
}

/* Its text, which lives as long as the process: the same address for the same text. */
const char *variant_label(const char *name, const struct variant *v)
{
    static struct map labels; /* under recorder.lock */
    struct text t = {0};

    variant_add(&t, name, v);
    const char *const text = t.bytes != NULL ? t.bytes : name;
    const uint64_t h = hash_text(3, text, -1);

    recorder_lock();
    const char *found = map_get(&labels, h);

    if (found == NULL && (found = memory_text(text)) != NULL)
        map_put(&labels, h, (void *)(uintptr_t)found);
    recorder_unlock();
    text_free(&t);
    return found != NULL ? found : "?";
}

static bool parameter_read(struct variant *v, const char *word)
{
    long long number;

    if (sscanf(word, "block_size=%lld", &number) == 1 && number > 0) {
        v->block_size = number;
        return true;
    }
    if (sscanf(word, "late=%lld", &number) == 1 && number >= 0 && number <= INT_MAX) {
        v->late = (int)number;
        return true;
    }
    if (strcmp(word, "blocks=equal") == 0) {
        v->equal_blocks = true;
        return true;
    }
    for (int i = 0; i < ORDERS && strncmp(word, "order=", 6) == 0; i++)
        if (strcmp(word + 6, orders[i]) == 0) {
            v->order = i;
            return true;
        }
    return strcmp(word, "blocks=last_short") == 0;
}

/* Fills in the parameters and the label, and gives the algorithm's name; false: no variant. What
 * follows `native:` is the library's own name for one of its algorithms. */
bool variant_read(struct variant *v, const char *text, char *name, size_t room)
{
    const bool native = strncmp(text, "native:", 7) == 0;
    char *const copy = memory_text(text), *rest = NULL;
    const char *word = copy == NULL ? NULL : native ? copy : strtok_r(copy, ":", &rest);
    bool good = word != NULL && strlen(word) < room;

    *v = (struct variant){0};
    if (good)
        snprintf(name, room, "%s", word);
    while (good && !native && (word = strtok_r(NULL, ":", &rest)) != NULL)
        good = parameter_read(v, word);
    memory_free(copy);
    if (good)
        v->label = variant_label(name, v);
    return good;
}
