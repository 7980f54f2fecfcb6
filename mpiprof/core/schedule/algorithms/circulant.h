/* Broadcast of blocks from process 0 over a circulant graph (bcast_circulant.c). */
#pragma once
#include <stdint.h>

enum { CIRCULANT_MOST = 32 }; /* for up to 2^31 processes */

struct circulant { /* schedule of process v, numbered from the root */
    int64_t v;
    int q; /* ceil(lg p) */
    /* idle: rounds that are skipped at the start, so that the last phase is complete */
    int64_t blocks, idle;
    int64_t skip[CIRCULANT_MOST + 1], gets[CIRCULANT_MOST], gives[CIRCULANT_MOST];
};
struct circulant_round {
    int64_t from, to;
    int64_t gets, gives; /* block numbers; -1 for none */
};

void circulant_fill(struct circulant *s, int64_t processes, int64_t v, int64_t blocks);
int64_t circulant_length(const struct circulant *s); /* in rounds */
struct circulant_round circulant_at(const struct circulant *s, int64_t r);
