/* Packed records of messages and intervals (message_pack.c), as bytes in a chunk.
 *
 *   head of the chunk         records of the first window, then of the second one ...
 *   content 2                 +--------+--------+--------+--------+     +--------+
 *   packed: bytes, windows    | record | record | record | record | ... | record |
 *   first_window              +--------+--------+--------+--------+     +--------+
 *                             0                                         bytes
 *
 * A record takes 1 to MOST_PACKED bytes, 2 to 6 in a loop of a program:
 *
 *   flags  [index]  [16 bytes]  [sequence tag]  [time]  [value]
 *   |      |        |           |               |       |
 *   |      |        |           |               |       exit_ns, less its prediction
 *   |      |        |           |               enter_ns, less its prediction
 *   |      |        |           4 + 4 bytes, if one of them differs from its prediction
 *   |      |        the second half of the record, if the template is new
 *   |      template, 2 bytes, if another one than predicted
 *   bits 0-2: size of time, 3-5: size of value, 6: has index, 7: has sequence and tag
 *
 * A template is the second half of a record, which is equal in all calls of one sort. The template
 * of a record is predicted to be the one that followed the template of the record before, last
 * time. Each template predicts that its next sequence differs from the last one as that did from
 * the one before. Times are predicted to be those of the record before, a call's exit to be its
 * entry, and the bytes of a message to be those of the last one. Differences are signed numbers: 0,
 * -1, 1, -2, ... become 0, 1, 2, 3, ..., in as many bytes as they need.
 *
 * The templates of a chunk are learned while it is read, so it is readable without other chunks.
 */
#pragma once
#include <string.h>

#include "base/base.h"
#include "tracefile/event.h"

enum {
    PACK_TEMPLATES = 512,
    PACK_BUCKETS = 256,
    PACK_NO_TEMPLATE = 0xffff, /* of a record whose second half is in no template */
    PACK_ROOM = CHUNK_BYTES - CHUNK_HEAD,
    MOST_PACKED = 35,
    PACK_SIZE_BITS = 7, /* mask of a size's code */
    PACK_VALUE_SHIFT = 3,
    PACK_HAS_INDEX = 64,
    PACK_HAS_NUMBERS = 128
};
struct pack_template {
    uint32_t sequence, shape, outside_ns, last_half; /* last_half: thread, kind and choice */
    uint32_t step;                                   /* last change of the sequence */
    uint16_t next, chain; /* next: the template that followed; chain: with the same hash */
    int64_t value;        /* bytes of the last message */
};
_Static_assert(offsetof(struct record, sequence) == 16 && sizeof(struct record) == 32,
               "the second half of a record begins with its sequence");
enum { PACK_HALF = 16 };

struct message_pack {
    struct pack_template templates[PACK_TEMPLATES];
    uint16_t buckets[PACK_BUCKETS]; /* first template of each hash */
    uint32_t count, last;           /* last: template of the last record */
    int64_t time_ns;                /* of the last record */
    struct chunk *chunk;            /* that the recorder fills */
};

void message_pack_reset(struct message_pack *p);
int64_t message_pack_add(struct message_pack *p, const struct record *records, uint32_t count,
                         char *bytes, int64_t room);

static const uint8_t pack_sizes[] = {0, 1, 2, 3, 4, 5, 6, 8};

static inline bool pack_is_part(uint8_t kind)
{
    return kind == KIND_sent || kind == KIND_received;
}

static inline bool pack_is_call(uint8_t kind)
{
    return kind == KIND_message_call || kind == KIND_local_call || kind == KIND_interval ||
           kind == KIND_poll;
}

/* Return the prediction of a record's enter_ns. */
static inline int64_t pack_expected_enter(const struct message_pack *p, uint8_t kind)
{
    return pack_is_part(kind) || pack_is_call(kind) ? p->time_ns : 0;
}

/* Return the prediction of a record's exit_ns. */
static inline int64_t pack_expected_exit(const struct pack_template *t, const struct record *r)
{
    return pack_is_part(r->kind) ? t->value : pack_is_call(r->kind) ? r->enter_ns : 0;
}

/* Start a template from the second half of a record. */
static inline void pack_template_set(struct pack_template *t, const char *half)
{
    memcpy(t, half, PACK_HALF);
    t->step = pack_is_part((uint8_t)half[offsetof(struct record, kind) - PACK_HALF]);
    t->sequence -= t->step; /* so that the prediction is right at once */
    t->next = PACK_NO_TEMPLATE;
    t->value = 0;
}

/* Learn from a record. index: of its template, or PACK_NO_TEMPLATE. */
static inline void pack_learn(struct message_pack *p, struct pack_template *t, uint32_t index,
                              const struct record *r)
{
    t->step = r->sequence - t->sequence;
    t->sequence = r->sequence;
    if (p->last != PACK_NO_TEMPLATE)
        p->templates[p->last].next = (uint16_t)index;
    p->last = index;
    if (pack_is_part(r->kind)) {
        t->value = r->exit_ns;
        p->time_ns = r->enter_ns;
    } else if (pack_is_call(r->kind)) {
        p->time_ns = r->exit_ns != 0 ? r->exit_ns : r->enter_ns;
    }
}
