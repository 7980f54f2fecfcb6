/* Calls: their state from entry to exit, their arguments and shapes. */
#pragma once
#include "base/arguments.h"
#include "base/base.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "callsite/callsite.h"
#include "record/communicator.h"
#include "record/record.h"
#include "tracefile/event.h"

/* ---- call shapes: interned table rows that describe a call (call_shape.c) */

struct call_shape {
    struct call_shape *next;
    struct record *_Atomic totals;
    int64_t sent, received;
    const char *algorithm;
    const char *type, *reduction; /* predefined names; NULL for others, or if there is none */
    int root;
    uint32_t id, flags;
};
struct shape_group { /* of one operation, communicator and call site, known at entry */
    struct call_shape base;
    struct call_shape *_Atomic shapes;
    const struct communicator *comm;
    const struct site *site;
    int operation, count;
};
enum { MOST_SHAPES = 64 }; /* with bytes, per group; beyond them records extend their bytes */
enum {
    FLAG_IN_PLACE = 1,
    FLAG_INTER = 2,
    FLAG_NONBLOCKING = 4,
    FLAG_PERSISTENT = 8,
    FLAG_ERROR = 16
};
struct shape_group *call_shapes_find(int operation, const struct communicator *comm,
                                     const struct site *site);
struct call_shape *call_shape_find(struct shape_group *f, const struct call_shape *wanted);

/* Return the totals of a shape, or NULL after counting a dropped call if memory is insufficient. */
static inline struct record *record_totals(enum content content, struct call_shape *shape)
{
    struct record *const r = atomic_load_explicit(&shape->totals, memory_order_acquire);

    return r != NULL ? r : record_totals_make(content, shape);
}

/* Return true if there may be no shape for another call, which adds one before and one after the
 * native routine. */
static inline bool call_shapes_are_many(const struct shape_group *f)
{
    return f->count >= MOST_SHAPES - 1;
}

/* ---- state of a collective call, from entry to exit */

struct key;
struct library_algorithm;

/* Use of the private communicator, and the end of the call. */
enum call_state {
    CALL_NATIVE,    /* no use: the library's routine, without statistics */
    CALL_OBSERVED,  /* the library's routine, with statistics */
    CALL_SELECTED,  /* may run on a selected algorithm */
    CALL_SCHEDULED, /* a schedule of mpiprof is running: errors in it are not errors of the call */
    CALL_SETTLED    /* the result is recorded: later errors belong to other calls */
};
struct call {
    enum call_state state;
    struct communicator *comm;
    struct shape_group *shape_group;
    struct recent *recent;
    struct record *record;
    struct site *site;
    MPI_Comm handle;
    const char *algorithm; /* with its parameters; NULL for the library's default */
    const void *address;
    int operation, root;
    uint32_t sequence, shape;
    uint32_t blocking; /* number of earlier blocking collectives on the communicator */
    int64_t begin_ns, enter_ns, exit_ns;
    uint32_t extensions;               /* extension records before `record` */
    const struct call_shape *expected; /* shape from arguments that need no library call */
    bool expected_is_exact;            /* including the bytes */
    const struct creation *creation;   /* the communicator, window or file that it creates */
    const struct library_algorithm
        *library_algorithm; /* library_algorithm.c: the requested algorithm */
    MPI_Comm library_comm;  /* communicator for `library_algorithm`, if not that of the call */
    int library_comm_fortran;
    struct key *key; /* auto.c: the key to collect statistics for */
    uint8_t choice, candidate, planned;
};

/* Return true if bytes are stored in two extension records, because the shapes are too many. */
static inline bool call_extends_bytes(const struct call *c)
{
    return c->extensions >= 2;
}

/* ---- recording of collective calls from entry to exit: the hot path (call.c) */

struct call_order { /* communicator and sequence number of a call; comm is NULL if unknown */
    struct communicator *comm;
    const struct creation *creation; /* NULL if the call creates no communicator, window or file */
    uint32_t sequence;
};

bool call_begin_active(struct call *c, int operation, MPI_Comm comm, int root, const void *address);
void call_begin_counted(struct call *c, int operation, const struct call_order *at,
                        const void *address);
bool call_end(struct call *c, int error);
void call_failed(struct call *c, int error);
bool call_within(const void *here);
void call_leave(struct call *c);
const struct site *call_site(const struct call *c); /* also for calls that are not recorded */

/* ---- entry code of every wrapper */

static inline bool call_begin(struct call *c, int operation, MPI_Comm comm, int root,
                              const void *address)
{
    if (!atomic_load_explicit(&recorder.active, memory_order_relaxed) ||
        (self.call != NULL && call_within(__builtin_frame_address(0))))
        return false;
    return call_begin_active(c, operation, comm, root, address);
}

/* A Fortran layer that calls C names: the call site is the layer's caller. */
static inline const void *fortran_caller_enter(const void *address)
{
    const void *const outer = self.fortran_caller;

    if (outer == NULL)
        self.fortran_caller = address;
    return outer;
}

static inline void fortran_caller_leave(const void *outer)
{
    self.fortran_caller = outer;
}

/* ---- bytes and types of a call (byte_counts.c) */

struct byte_counts {
    int64_t sent, received;
    uint32_t flags;
    bool accepted;                /* by the library: all significant arguments may be read */
    bool unknown;                 /* if true, sent and received are undefined */
    const char *type, *reduction; /* predefined names, or NULL */
};
int64_t byte_count_of_side(const struct arguments *a, const struct side *s);
void byte_counts(const struct call *c, const struct arguments *a, struct byte_counts *m);

/* ---- arguments of a call, at entry and after acceptance (call_arguments.c) */

void call_arguments_expected(struct call *c, const struct arguments *a);
void call_arguments_failed(struct call *c);
void call_arguments_accepted(struct call *c, const struct arguments *a);

static inline void call_arguments_entered(struct call *c, const struct arguments *a)
{
    if (c->record != NULL)
        call_arguments_expected(c, a);
}

/* ---- pending nonblocking and persistent collectives (request.c) */

struct request {
    struct request *next, *last; /* last: of the list, valid in its first entry */
    uint64_t handle, identity;
    uint32_t sequence, shape;
    int64_t start;
    bool persistent, active, sampled, reserved;
    bool creates; /* a communicator, by MPI_Comm_idup */
};
void request_add(const struct call *c, MPI_Request handle);
void request_add_creation(MPI_Request handle);
struct request *request_reserve(MPI_Request handle);
void request_remove(struct request *r);

/* ---- wrappers of the program's error handlers (error_handler.c) */

typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
MPI_Comm_errhandler_function *error_handler_wrapper(MPI_Comm_errhandler_function *function);

/* ---- totals of samples before each call site (presite_samples.c) */

extern bool presite_sample_is_on; /* read on the hot path */
void presite_sample_start(void);
void presite_sample_split(uint32_t left, uint32_t entered);
void presite_sample_entered(const struct site *site, uint32_t left, uint32_t entered);
void presite_sample_left(void);
void presite_sample_end(void);
