/* A call on a schedule: its problem, its checks, its buffers and its run. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "record/call.h"
#include "schedule/schedule.h"

/* ---- state of one call that runs on a schedule, shared by the files of this folder
 * (execution.c) */

/* Blocks of the user's send or receive buffer. */
struct blocks {
    char *base;
    int count;
    bool device; /* in device memory, which only the library may access */
    const struct side *side;
};
struct block_place { /* one block */
    char *at;
    int64_t count;
    MPI_Datatype type;
};

struct missing_tail { /* a tail of a block in packed OUT that was not received */
    struct missing_tail *next;
    const char *at;
};

struct route {     /* of messages; select.c */
    MPI_Comm comm; /* private communicator; for an inter-communicator, of both groups merged */
    int tag;
    int own_first, remote_first; /* first rank of each group in `comm` */
};
struct element { /* of the buffers: bytes, or operands of a reduction in the layout of `type` */
    MPI_Datatype type;
    MPI_Op op;
    int64_t unit, extent; /* bytes of an element: as counted by the schedule, and in memory */
    int64_t lower;        /* offset of an element's first data byte */
    int64_t span;         /* distance from its first to its last data byte */
    bool solid;           /* the span has no gaps */
};
struct staging {      /* pack_buffers.c */
    char *buffers[3]; /* IN, OUT, SCRATCH */
    struct blocks blocks[2];
    struct missing_tail *missing; /* tails of OUT that were not received */
    int64_t in_at;                /* offset of IN in OUT */
    bool in_place;                /* IN is a part of OUT, or OUT a part of IN */
    bool by_block; /* messages are whole blocks of the user's buffers, which are not packed */
    bool unpack;   /* OUT is packed, to be unpacked at the end */
    bool to_device;
    bool self_sizes_differ; /* the sizes that this rank sends to itself and expects from itself */
};
struct bcast_size {          /* bcast_size_agreement.c */
    int64_t given, received; /* bytes that the arguments specify; the part that is received */
    int parent;              /* rank that forwards the data; negative if unknown */
    bool size_known;         /* the root has sent its size */
    bool expects_size, size_arrived; /* a size message may arrive instead of data; it has arrived */
};

/* One call that runs on a schedule, on the caller's stack. Its scratch memory belongs to the
 * communicator. */
struct execution {
    struct call *call;
    const struct arguments *arguments;
    bool reduces;
    const struct algorithm *algorithm;
    const struct library_algorithm *library_algorithm; /* runs instead of `algorithm` */
    int64_t segment; /* segment size of its messages; 0 for whole messages */
    struct problem problem;
    struct context context;
    struct route route;
    struct element element;
    struct staging staging;
    struct bcast_size size; /* only for a broadcast */
    bool called_off;        /* cancelled: all members learn this and run the library's default */
    int error;              /* the first error */
};

void execution_note_error(struct execution *e, int error);
char *execution_address(const struct execution *e, int buffer, int64_t offset);
int64_t execution_chunk(const struct execution *e, int64_t length);
int execution_elements(const struct execution *e, int64_t bytes);
void execution_copy(struct execution *e, char *to, char *from, int64_t length);
void execution_self_send(struct execution *e, const struct block_place *from,
                         const struct block_place *to);

static inline struct element element_byte(void)
{
    return (struct element){.type = MPI_BYTE, .unit = 1, .extent = 1, .solid = true};
}

/* MPI's prototypes declare the user's buffer const for one side. */
static inline char *execution_writable(const void *p)
{
    return (char *)(uintptr_t)p;
}

/* ---- execution of a schedule's rounds with point-to-point calls (execute.c) */

void execute(struct execution *e);
void execute_counts(struct execution *e, int64_t *counts, int64_t *room);
void execute_release(void);

/* ---- the problem of a schedule, from the arguments of a call (problem.c) */

void problem_start(void);
bool problem_is_switched(const struct call *c);
bool problem_fill(struct execution *e);
bool problem_is_known(const struct execution *e);
int64_t problem_bytes(const struct execution *e);
int64_t *problem_counts(int which, int members);
void problem_forget(void);
int64_t problem_sum(const struct problem *p);
int64_t problem_largest(const struct problem *p);

/* ---- agreement on the size of a broadcast (bcast_size_agreement.c) */

enum { BCAST_TAGS = 16383 }; /* number of tags for data messages, and again for size messages */

void bcast_size_agreement_begin(struct execution *e);
bool bcast_size_agreement_restarts(struct execution *e);
void bcast_size_agreement_end(struct execution *e);
int bcast_size_agreement_wait(struct execution *e, MPI_Request *request, MPI_Status *status);
bool bcast_size_agreement_is_short(struct execution *e, int64_t expected, int64_t bytes);
int64_t bcast_size_agreement_length(const struct execution *e, int64_t offset, int64_t length);

/* ---- messages that a rank sends to itself (self_message.c) */

struct self_block { /* one side of a message that a rank sends to itself */
    char *buffer;
    MPI_Datatype type;
    int64_t count, offset; /* in elements: the block, and its offset in the buffer */
};
struct self_message_sides {
    struct self_block sent, received;
};
bool self_message_sides(const struct call *c, const struct arguments *a,
                        struct self_message_sides *own);
char *self_message_block_at(const struct self_block *b);
int64_t self_message_block_bytes(const struct self_block *b);
bool self_message_sizes_differ(const struct call *c, const struct arguments *a);

/* ---- checks that the library will accept a call's arguments (argument_check.c) */

void argument_check_start(void);
void argument_check_end(void);
bool argument_check_is_complete(void);
bool argument_check_arguments(const struct call *c, const struct arguments *a);
int argument_check_send_to_self(int operation, const struct self_message_sides *own);

/* ---- detection of buffers in device memory (device.c) */

bool device_present(void);
bool device_holds(const void *buffer);

/* ---- blocks of the user's send or receive buffer (block_layout.c) */

struct block_place block_layout_place(const struct arguments *a, const struct blocks *b, int i);
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
    bool receives, in_place, from_device, to_device, moves, packs_in;
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
