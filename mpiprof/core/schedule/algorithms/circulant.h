/* Blocks that spread from process 0 over a circulant graph: bcast_circulant.c. */
#pragma once
#include <stdint.h>

enum { CIRCULANT_MOST = 32 }; /* 2^31 processes */

struct circulant { /* of process v, numbered from the root on */
    int64_t v;
    int q;                /* ceil(lg p) */
    int64_t blocks, idle; /* idle: the rounds that are left out so that the last phase is whole */
    int64_t skip[CIRCULANT_MOST + 1], gets[CIRCULANT_MOST], gives[CIRCULANT_MOST];
};
struct circulant_round {
    int64_t from, to;    /* processes, numbered from the root on */
    int64_t gets, gives; /* numbers of blocks; -1: none */
};

void circulant_fill(struct circulant *s, int64_t processes, int64_t v, int64_t blocks);
int64_t circulant_length(const struct circulant *s); /* in rounds */
struct circulant_round circulant_at(const struct circulant *s, int64_t r);
