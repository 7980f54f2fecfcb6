/* One call that runs on a schedule: what its parts share, and execution.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "record/call.h"
#include "schedule/schedule.h"

/* The user's places of a side's data, block after block. */
struct blocks {
    char *base;
    int count;   /* of blocks */
    bool v;      /* counts and displacements by block */
    bool device; /* the library alone may touch it */
    const struct side *side;
};
struct place { /* one of them */
    char *at;
    int64_t count;
    MPI_Datatype type;
};

struct lack { /* a part of staged OUT that has not come */
    struct lack *next;
    const char *at;
};

/* One call that runs on a schedule. Lives on the caller's stack; its memory is the
 * communicator's. */
struct execution {
    struct call *call;
    const struct arguments *arguments;
    const struct algorithm *algorithm;
    const struct own_algorithm *own; /* in place of it, one of the library's own */
    int64_t segment;                 /* of its messages; 0: whole ones */
    struct problem problem;
    struct context context;
    MPI_Comm comm; /* private: of the communicator's members, an inter-communicator's merged */
    int remote_first, own_first; /* ranks of the groups within comm */
    int tag;
    char *buffers[3]; /* IN, OUT, SCRATCH */
    bool reduces;     /* then buffers are in the type's own layout: */
    MPI_Datatype type;
    MPI_Op op;
    int64_t unit, extent; /* bytes of an element: as counted by the schedule, and in memory */
    int64_t lower;        /* where an element's data begins */
    int64_t span;         /* from its first byte to its last */
    bool solid;           /* which then has no gaps */
    bool unpack;          /* OUT is staged */
    bool to_device;       /* the result of a reduction is */
    bool joined;          /* IN is a part of OUT: */
    int64_t in_at;        /* where in OUT it begins */
    bool by_block;        /* messages are whole blocks; IN and OUT, where they are not packed: */
    struct blocks blocks[2];
    bool own_differs;   /* sizes do, of what this rank sends to itself and expects */
    struct lack *lacks; /* where parts of OUT have not come */
    /* A broadcast's (lead.c): */
    int64_t given, room; /* bytes that this rank was given; of them those that come */
    bool told;           /* the size is the root's own, as it has said itself */
    bool listens, heard; /* to whether it says so in place of the message; it does */
    int parent;          /* who passes that on; < 0: not known yet */
    bool called_off;     /* all members will know, and run the library's own */
    int error;           /* the first */
};

void execution_note(struct execution *e, int error);
char *execution_address(const struct execution *e, int buffer, int64_t offset);
int64_t execution_chunk(const struct execution *e, int64_t length);
int execution_elements(const struct execution *e, int64_t bytes);
void execution_copy(struct execution *e, char *to, char *from, int64_t length);

/* The user's buffer, which MPI's prototypes have const on one side. */
static inline char *execution_writable(const void *p)
{
    return (char *)(uintptr_t)p;
}
