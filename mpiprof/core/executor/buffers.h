/* Buffers and messages of a schedule, for the files of this folder. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "base/symbol_lookup.h"
#include "executor/execution.h"
#include "schedule/schedule.h"

/* ---- detection of buffers in device memory (device.c) */

bool device_present(void);
bool device_holds(const void *buffer);

/* ---- blocks of the user's send or receive buffer (block_layout.c) */

int64_t block_layout_count(const struct arguments *a, const struct blocks *b, int i);
char *block_layout_at(const struct arguments *a, const struct blocks *b, int i, int64_t extent);
bool block_layout_is_direct(const struct execution *e, const struct blocks *b);
int64_t block_layout_packed_bytes(const struct execution *e, const struct blocks *b);
int64_t block_layout_move_one(struct execution *e, const struct blocks *b, int i, char *packed,
                              bool pack);
void block_layout_move(struct execution *e, const struct blocks *b, char *packed, bool pack);
bool block_layout_limit_count(struct execution *e, struct block_place *p);

/* ---- operands of reductions (reduce_buffers.c) */

/* A rank's vectors. Only this rank knows which of them must be copied: any member may call a
 * reduce_scatter in place. */
struct reduce_buffers {
    char *in, *out;
    bool receives, in_place, from_device, to_device, moves;
};
struct reduce_buffers reduce_buffer_of(const struct execution *e);
int64_t reduce_buffer_bytes(const struct execution *e, int64_t bytes);
char *reduce_buffer_scratch(const struct execution *e, int64_t bytes);
int64_t reduce_buffer_sent_bytes(const struct execution *e);
int64_t reduce_buffer_received_bytes(const struct execution *e);
void reduce_buffer_copy(struct execution *e, char *to, char *from, int64_t whole, bool device);

/* ---- the user's buffers in the layout that a schedule requires (pack_buffers.c) */

int64_t pack_buffer_scratch_bytes(const struct algorithm *a, const struct execution *e);
bool pack_buffer_has_memory(struct execution *e);
void pack_buffer_begin(struct execution *e);
void pack_buffer_end(struct execution *e);
void pack_buffer_note_missing(struct execution *e, const char *at);
struct block_place pack_buffer_place(const struct execution *e, const struct step *s, int buffer,
                                     int64_t offset, int block);

/* ---- messages of a schedule's rounds (messages.c) */

struct pending {
    MPI_Request request;
    char *at;
    int64_t expected;  /* bytes; 0 for a send */
    bool may_be_short; /* fewer bytes are acceptable */
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
