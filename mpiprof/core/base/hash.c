/* Hashes of numbers and texts, which are equal in every process. */
#include "base/base.h"

uint64_t hash_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u ^ b; /* then the finaliser of splitmix64 */

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t hash_text(uint64_t h, const char *text, int length)
{
    for (int i = 0; length < 0 ? text[i] != '\0' : i < length; i++)
        h = hash_mix(h, (uint64_t)(unsigned char)text[i]);
    return h;
}
