/* The first chunk of a log (log_header.c). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracefile/event.h"

enum { HEAD_TEXT = 4096, HEAD_CLAIMS = 15000 };
#define HEAD_RELEASED UINT32_MAX /* a released claim; 0 ends the list */

struct log_header {
    char text[HEAD_TEXT];
    _Atomic uint64_t end;                 /* of the log, in bytes; 0 until the header is complete */
    _Atomic uint64_t tables;              /* end of the tables file, in bytes */
    _Atomic uint32_t claims[HEAD_CLAIMS]; /* rank + 1 */
};
_Static_assert(sizeof(struct log_header) <= CHUNK_BYTES, "the head is one chunk");

struct log_header *log_header_make(int descriptor);
struct log_header *log_header_share(int descriptor);
bool log_header_claim(struct log_header *h, int rank);
void log_header_release(struct log_header *h, int rank);
