/* Hashes of texts, which are equal in every process. */
#include "base/base.h"

uint64_t hash_text(uint64_t h, const char *text, int length)
{
    for (int i = 0; length < 0 ? text[i] != '\0' : i < length; i++)
        h = hash_mix(h, (uint64_t)(unsigned char)text[i]);
    return h;
}
