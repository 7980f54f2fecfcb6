/* Log of a key: its facts for the trace, which no decision uses (key_log.c). */
#pragma once
#include "callsite/callsite.h"
#include "selection/online/selection.h"

struct key_log {
    uint64_t key;
    const struct communicator *comm;
    const struct site *sites[4];
    int site_count, root, operation;
    int64_t bytes, message_ns; /* of the first instance; message time T of its message */
    bool written;              /* the key's row, with all its call sites */
};

struct key_log *key_log_make(const struct execution *e, uint64_t key);
void key_log_site(struct key_log *l, const struct site *site);
void key_log_omission(struct selection *s, const char *algorithm, const char *why);
void key_log_events(struct selection *s);
void key_log_end(struct selection *s);
