/* Unpacks the records of messages and intervals (tracefile/message_pack.h has the format).
 *
 * The bytes may be damaged or hostile: nothing beyond them is read, and nothing beyond the records'
 * room is written. Caller: mpiprof/trace/message_unpack.py, from any thread. The caller owns the
 * state and all arrays. */
#include "tracefile/message_pack.h"

/* State between two calls. The fields have the order of message_unpack.Unpacker. */
struct unpacker {
    const char *bytes;
    int64_t length, at; /* at: offset of the next record; -1 if the bytes are damaged */
    struct record *records;
    int64_t room, count; /* room: of `records`; count: of the records of the last call */
    struct message_pack *pack;
};

PUBLIC int64_t message_unpack_state_bytes(void)
{
    return (int64_t)sizeof(struct message_pack);
}

/* Begin a chunk. */
PUBLIC void message_unpack_begin(struct unpacker *u)
{
    u->at = 0;
    u->pack->count = 0;
    u->pack->last = PACK_NO_TEMPLATE;
    u->pack->time_ns = 0;
}

/* Copy the next bytes. Returns false if there are too few. */
static bool bytes_take(struct unpacker *u, void *target, int64_t size)
{
    if (u->length - u->at < size)
        return false;
    memcpy(target, u->bytes + u->at, (size_t)size);
    u->at += size;
    return true;
}

static bool difference_take(struct unpacker *u, unsigned code, int64_t expected, int64_t *value)
{
    uint64_t zigzag = 0;

    if (!bytes_take(u, &zigzag, pack_sizes[code & PACK_SIZE_BITS]))
        return false;
    *value = (int64_t)((uint64_t)expected + (zigzag >> 1 ^ (0 - (zigzag & 1))));
    return true;
}

/* Find the template of the next record. Returns false if there is none. */
static bool template_take(struct unpacker *u, uint8_t flags, struct pack_template *unstored,
                          struct pack_template **found, uint32_t *index)
{
    struct message_pack *const p = u->pack;
    uint16_t number = PACK_NO_TEMPLATE;
    char half[PACK_HALF];

    if ((flags & PACK_HAS_INDEX) == 0) {
        number = p->last != PACK_NO_TEMPLATE ? p->templates[p->last].next : PACK_NO_TEMPLATE;
        if (number >= p->count)
            return false;
    } else if (!bytes_take(u, &number, sizeof number)) {
        return false;
    }
    *index = number;
    *found = number < PACK_TEMPLATES ? &p->templates[number] : unstored;
    if (number < p->count)
        return true;
    if ((number != PACK_NO_TEMPLATE && (number != p->count || p->count == PACK_TEMPLATES)) ||
        !bytes_take(u, half, PACK_HALF))
        return false;
    pack_template_set(*found, half);
    p->count += number != PACK_NO_TEMPLATE;
    return true;
}

static bool record_take(struct unpacker *u, struct record *r)
{
    struct message_pack *const p = u->pack;
    struct pack_template unstored, *t;
    uint32_t index;
    uint8_t flags;

    if (!bytes_take(u, &flags, 1) || !template_take(u, flags, &unstored, &t, &index))
        return false;
    memcpy((char *)r + PACK_HALF, t, PACK_HALF);
    r->sequence += t->step;
    if ((flags & PACK_HAS_NUMBERS) != 0 &&
        (!bytes_take(u, &r->sequence, 4) || !bytes_take(u, &r->outside_ns, 4)))
        return false;
    if (!difference_take(u, flags, pack_expected_enter(p, r->kind), &r->enter_ns) ||
        !difference_take(u, flags >> PACK_VALUE_SHIFT, pack_expected_exit(t, r), &r->exit_ns))
        return false;
    pack_learn(p, t, index, r);
    return true;
}

/* Unpack the next records. u->count is 0 at the end of the chunk, u->at is -1 if it is damaged. */
PUBLIC void message_unpack_next(struct unpacker *u)
{
    for (u->count = 0; u->count < u->room && u->at >= 0 && u->at < u->length; u->count++)
        if (!record_take(u, &u->records[u->count])) {
            u->at = -1;
            return;
        }
}

/* Pack records into an empty chunk, as the recorder does. Returns the bytes, or -1 if there is too
 * little room. Caller: tests. */
PUBLIC int64_t message_unpack_reverse(struct message_pack *p, const struct record *records,
                                      int64_t count, char *bytes, int64_t room)
{
    message_pack_reset(p);
    return message_pack_add(p, records, (uint32_t)count, bytes, room);
}
