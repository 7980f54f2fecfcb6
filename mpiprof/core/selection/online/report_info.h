/* Report information of a key, which no decision uses. explain.c fills it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "callsite/site.h"
#include "record/comm.h"

struct report_info {
    uint64_t key;
    const struct communicator *comm;
    const struct site *sites[4];
    int site_count, root, operation;
    int64_t bytes, message_ns; /* of the first instance; message time T of its message */
    bool known;                /* all members know the bytes */
    bool written;              /* written to selection.jsonl */
    struct text history;       /* changes and their reasons, as text */
};
