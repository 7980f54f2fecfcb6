/* What people and the trace are told of a key, beside what was decided: filled by explain.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "record/comm.h"
#include "record/site.h"

struct told {
    uint64_t key;
    const struct communicator *comm;
    const struct site *sites[4];
    int site_count, root, operation;
    int64_t bytes, message_ns; /* of the first instance; T of its message */
    bool known;                /* the bytes, to all members */
    bool written;              /* to selection.jsonl */
    struct text history;       /* when it changed and why, in words */
};
