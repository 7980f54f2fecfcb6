/* Packs the records of a window of messages (message_pack.h has the format).
 *
 * Threads: any; a thread's state is its own. Callers: record/message_log.c, and tests. */
#include "tracefile/message_pack.h"

enum { MOST_VARIANTS = 4 /* templates of messages that differ only by their tag */ };

void message_pack_reset(struct message_pack *p)
{
    p->count = 0;
    p->last = PACK_NO_TEMPLATE;
    p->time_ns = 0;
    memset(p->buckets, 0xff, sizeof p->buckets);
}

/* Return thread, kind and choice of a record. */
static uint32_t last_half(const struct record *r)
{
    uint32_t value;

    memcpy(&value, &r->thread, sizeof value);
    return value;
}

/* Return the template of a record, p->count for a new one, or PACK_NO_TEMPLATE. */
static uint32_t template_find(struct message_pack *p, const struct record *r)
{
    const uint32_t half = last_half(r);
    const uint32_t hash = (r->shape * 0x9e3779b9u ^ half * 0x85ebca6bu) >> 24;
    uint32_t variants = 0, first = PACK_NO_TEMPLATE;

    if (!pack_is_part(r->kind) && !pack_is_call(r->kind))
        return PACK_NO_TEMPLATE;
    for (uint32_t i = p->buckets[hash]; i != PACK_NO_TEMPLATE; i = p->templates[i].chain) {
        const struct pack_template *const t = &p->templates[i];

        if (t->shape != r->shape || t->last_half != half)
            continue;
        if (t->outside_ns == r->outside_ns)
            return i;
        first = i;
        variants++;
    }
    if (variants >= MOST_VARIANTS || (p->count == PACK_TEMPLATES && variants > 0))
        return first;
    if (p->count == PACK_TEMPLATES)
        return PACK_NO_TEMPLATE;
    p->templates[p->count].chain = p->buckets[hash];
    p->buckets[hash] = (uint16_t)p->count;
    return p->count;
}

/* Write a difference in as few bytes as it needs, of 8 that are writable. Returns the size's code. */
static inline unsigned difference_write(char **bytes, int64_t value, int64_t expected)
{
    const uint64_t difference = (uint64_t)value - (uint64_t)expected;
    const uint64_t zigzag = difference << 1 ^ (0 - (difference >> 63));
    const unsigned bits = zigzag != 0 ? 64 - (unsigned)__builtin_clzll(zigzag) : 0;
    const unsigned size = (bits + 7) / 8, code = size <= 6 ? size : 7;

    memcpy(*bytes, &zigzag, sizeof zigzag);
    *bytes += pack_sizes[code];
    return code;
}

static char *record_write(struct message_pack *p, const struct record *r, char *bytes)
{
    struct pack_template unstored, *t = NULL;
    uint32_t index = p->last != PACK_NO_TEMPLATE ? p->templates[p->last].next : PACK_NO_TEMPLATE;
    char *const flags = bytes++;
    unsigned coded = 0;

    if (index != PACK_NO_TEMPLATE) {
        t = &p->templates[index];
        if (t->shape != r->shape || t->outside_ns != r->outside_ns || t->last_half != last_half(r))
            t = NULL;
    }
    if (t == NULL) {
        index = template_find(p, r);
        t = index != PACK_NO_TEMPLATE ? &p->templates[index] : &unstored;
        coded = PACK_HAS_INDEX;
        memcpy(bytes, &index, 2);
        bytes += 2;
        if (index == p->count || index == PACK_NO_TEMPLATE) {
            memcpy(bytes, (const char *)r + PACK_HALF, PACK_HALF);
            pack_template_set(t, bytes);
            bytes += PACK_HALF;
            p->count += index == p->count;
        }
    }
    if (t->sequence + t->step != r->sequence || t->outside_ns != r->outside_ns) {
        coded |= PACK_HAS_NUMBERS;
        memcpy(bytes, &r->sequence, 4);
        memcpy(bytes + 4, &r->outside_ns, 4);
        bytes += 8;
    }
    coded |= difference_write(&bytes, r->enter_ns, pack_expected_enter(p, r->kind));
    coded |= difference_write(&bytes, r->exit_ns, pack_expected_exit(t, r)) << PACK_VALUE_SHIFT;
    *flags = (char)coded;
    pack_learn(p, t, index, r);
    return bytes;
}

/* Pack records. Returns the number of bytes, or -1 if there is too little room: then the caller
 * resets the state, because readers do not know these records. */
int64_t message_pack_add(struct message_pack *p, const struct record *records, uint32_t count,
                         char *bytes, int64_t room)
{
    char *const begin = bytes, *const end = bytes + room;

    for (uint32_t i = 0; i < count; i++) {
        if (end - bytes < MOST_PACKED)
            return -1;
        bytes = record_write(p, &records[i], bytes);
    }
    return bytes - begin;
}
