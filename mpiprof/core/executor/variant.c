/* A variant: an algorithm with its parameters, in one spelling.
 *
 *      pipelined_ring:block_size=65536:blocks=equal:order=both
 *
 * Users, rules (selection/rules/rules.c), traces and plans use this spelling. collectives/variant.py is
 * the Python counterpart.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/recorder.h"
#include "executor/variant.h"

static const char *const orders[] = {"ranks", "spread", "nodes", "both"};
enum { ORDERS = sizeof orders / sizeof *orders };

bool variant_same(const struct variant *a, const struct variant *b)
{
    return a->algorithm == b->algorithm && a->library_algorithm == b->library_algorithm &&
           a->segment == b->segment && a->block_size == b->block_size && a->order == b->order &&
           a->equal_blocks == b->equal_blocks && a->late == b->late;
}

void variant_apply(const struct variant *v, struct problem *p)
{
    p->block_size = v->block_size;
    p->order = v->order;
    p->equal_blocks = v->equal_blocks;
    p->late = v->late;
}

/* Return the interned spelling, without default parameters. It lives as long as the process. */
const char *variant_label(const char *name, const struct variant *v)
{
    static struct map labels; /* protected by recorder.lock */
    struct text t = {0};

    text_add(&t, "%s", name);
    if (v->block_size > 0)
        text_add(&t, ":block_size=%lld", (long long)v->block_size);
    if (v->equal_blocks)
        text_add(&t, ":blocks=equal");
    if (v->order != ORDER_RANKS)
        text_add(&t, ":order=%s", orders[v->order & (ORDERS - 1)]);
    if (v->late > 0)
        text_add(&t, ":late=%d", v->late);
    if (v->segment > 0)
        text_add(&t, ":segment=%lld", (long long)v->segment);
    const char *const text = t.bytes != NULL ? t.bytes : name;
    const uint64_t h = hash_text(3, text, -1);

    recorder_lock();
    const char *label = map_get(&labels, h);

    if (label == NULL && (label = memory_copy_text(text)) != NULL)
        map_put(&labels, h, (void *)(uintptr_t)label);
    recorder_unlock();
    text_free(&t);
    return label != NULL ? label : "?";
}

static bool parameter_read(struct variant *v, const char *word)
{
    long long number;
    int order = 0;

    while (order < ORDERS &&
           (strncmp(word, "order=", 6) != 0 || strcmp(word + 6, orders[order]) != 0))
        order++;
    if (order < ORDERS)
        v->order = order;
    else if (sscanf(word, "block_size=%lld", &number) == 1 && number > 0)
        v->block_size = number;
    else if (sscanf(word, "segment=%lld", &number) == 1 && number > 0 && number <= INT_MAX)
        v->segment = number;
    else if (sscanf(word, "late=%lld", &number) == 1 && number >= 0 && number <= INT_MAX)
        v->late = (int)number;
    else if (strcmp(word, "blocks=equal") == 0)
        v->equal_blocks = true;
    else
        return strcmp(word, "blocks=last_short") == 0;
    return true;
}

static const char native_prefix[] = "native:";

/* Return the library's name or number in a name such as native:ring, otherwise NULL. */
const char *variant_own(const char *name)
{
    return strncmp(name, native_prefix, sizeof native_prefix - 1) == 0
               ? name + sizeof native_prefix - 1
               : NULL;
}

/* Parse a variant: parameters, label, and name with `native:`. Returns false for other text. */
bool variant_read(struct variant *v, const char *text, char *name, size_t room)
{
    const size_t head = variant_own(text) != NULL ? sizeof native_prefix - 1 : 0;
    const size_t length = head + strcspn(text + head, ":");
    char *const words = memory_copy_text(text + length), *rest = NULL;
    bool good = words != NULL && length > head && length < room;

    *v = (struct variant){0};
    if (good)
        snprintf(name, room, "%.*s", (int)length, text);
    for (char *word = good ? strtok_r(words, ":", &rest) : NULL; good && word != NULL;
         word = strtok_r(NULL, ":", &rest))
        good = parameter_read(v, word);
    memory_free(words);
    if (good)
        v->label = variant_label(name, v);
    return good;
}
