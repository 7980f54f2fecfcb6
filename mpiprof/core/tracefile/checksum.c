/* Checksums that let a reader detect damage: of a chunk that is full or its thread's last, and of a
 * line of JSON, in its last key.
 *
 * The thread that filled a chunk computes its checksum before it appends the chunk, so the checksum
 * must be fast. It is the hash NH of Black, Halevi, Krawczyk, Krovetz and Rogaway (UMAC, 1999). The
 * key of each word is a multiple of the golden ratio by position, so that exchanged blocks are
 * detected. The checksum of a line is zlib's CRC-32. Threads: any.
 */
#include <string.h>

#include "tracefile/tracefile.h"

#define GOLDEN 0x9e3779b97f4a7c15u

static uint64_t sum_update(uint64_t sum, const void *bytes, size_t length, uint64_t place)
{
    for (size_t i = 0; i < length / 8; i++) {
        const uint64_t key = (place + i + 1) * GOLDEN;
        uint64_t word;

        memcpy(&word, (const char *)bytes + 8 * i, sizeof word);
        sum += (uint64_t)((uint32_t)word + (uint32_t)key) *
               (uint64_t)((uint32_t)(word >> 32) + (uint32_t)(key >> 32));
    }
    return sum;
}

static uint32_t sum_fold(uint64_t sum)
{
    const uint32_t folded = (uint32_t)(sum ^ sum >> 32);

    return folded != 0 ? folded : 1;
}

/* Return the checksum of a chunk's records with a given header. It is never 0: no checksum. */
uint32_t checksum_chunk(const struct chunk_head *head, const struct chunk *chunk)
{
    struct chunk_head front = *head;

    front.check = 0;
    return sum_fold(sum_update(sum_update(0, &front, sizeof front, 0), chunk->records,
                               sizeof chunk->records, sizeof front / 8));
}

/* Return the checksum of whole words that contain it at an offset, where it counts as 0. It is 0 if
 * they do not contain it. */
uint32_t checksum_words(const char *bytes, size_t length, size_t offset)
{
    if (length < sizeof(uint32_t) || offset > length - sizeof(uint32_t))
        return 0;
    const size_t place = offset / 8, rest = length - 8 * place;
    char words[16]; /* damaged headers may divide the checksum between two words */
    const size_t size = rest < sizeof words ? rest : sizeof words;
    uint64_t sum = sum_update(0, bytes, 8 * place, 0);

    memcpy(words, bytes + 8 * place, size);
    memset(words + offset % 8, 0, sizeof(uint32_t));
    sum = sum_update(sum, words, size, place);
    return sum_fold(sum_update(sum, bytes + 8 * place + size, rest - size, place + size / 8));
}

uint32_t checksum_bytes(const char *bytes, size_t length)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}

/* Add the checksum of the text as the last key of a JSON object, which ends with "}\n". */
void checksum_close(struct text *t)
{
    if (t->length < 2)
        return;
    t->length -= 2;
    text_add(t, ", \"check\": \"%08x\"}\n", checksum_bytes(t->bytes, t->length));
}
