/* Messages of a schedule's rounds (messages.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "executor/execution.h"
#include "schedule/schedule.h"

struct pending {
    MPI_Request request;
    char *at;
    int64_t expected; /* bytes; 0 for a send */
    bool may_lack;    /* fewer bytes are acceptable */
};

struct requests {
    struct pending *list;
    int count, room;
};

void messages_post(struct execution *e, const struct round *round, enum step_kind kind,
                   struct requests *r);
void messages_wait(struct execution *e, struct requests *r);
void messages_cancel(struct requests *r);
void messages_free(struct requests *r);
