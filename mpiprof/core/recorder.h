/* What the parts of the recorder know of each other. Nothing of it is visible outside the library.
 *
 * Threads: any thread of the program may come through a wrapper at any time. State of a thread is
 * in `self`; tables that threads share are read without locks and changed under recorder.lock.
 */
#pragma once
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "abi.h"
#include "event.h"
#include "glibc.h"
#include "natives.h"

#define PUBLIC __attribute__((visibility("default")))
#define CALLER() __builtin_return_address(0)
#define COMM_NONE MPI_COMM_NULL
#define WIN_NONE ((MPI_Win)0)
#define FH_NONE ((MPI_File)0)

enum { ROOT_NONE = -1000, PATH_BYTES = 4096 };

/* ---- native.c: the routines of the MPI library, or of a tool preloaded behind us */

typedef void native_function(void);
extern native_function *_Atomic natives[NATIVE_COUNT];
native_function *native_find(enum native id);

static inline native_function *native_get(enum native id)
{
    native_function *const known = atomic_load_explicit(&natives[id], memory_order_relaxed);
    return known != NULL ? known : native_find(id);
}

#include "pmpi.h"

/* ---- clock.c, machine.c */

static inline int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct text;
bool clock_nodes(MPI_Comm comm);
void clock_synchronise(const char *when);
const char *clock_node(void);
uint64_t clock_node_hash(void);
int clock_node_count(void);
int clock_leader(int node);
bool clock_on_node(int rank, int node);
int clock_neighbour(int size);
void clock_share(void);
int64_t clock_common(int64_t ns);
int64_t clock_bound(void);
bool clock_is_stale(void);
struct link { /* ns, ns a byte, bytes: t(m) = alpha + beta min(m, buffer) + pace max(m - buffer, 0)
               */
    double alpha, beta, pace, buffer;
};
extern struct link machine_link;
double machine_passing(const struct link *l, double bytes);
void machine_measure(struct text *out, bool full);
bool machine_reduces(void);

/* ---- text.c: growing text, JSON */

struct text {
    char *bytes;
    size_t length, room;
    bool cut; /* something did not fit, for want of memory */
};
void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int text_scan(const char *s, const char *format, ...) __attribute__((format(scanf, 2, 3)));
void text_json(struct text *t, const char *string, long length);
void text_free(struct text *t);

/* ---- map.c: a hash table that is read without locks */

struct map_table;
struct map {
    struct map_table *_Atomic table;
};
uint64_t hash_mix(uint64_t a, uint64_t b);
uint64_t hash_text(uint64_t h, const char *text, int length); /* < 0: to its end */
void *map_get(const struct map *m, uint64_t key);
bool map_put(struct map *m, uint64_t key, void *value); /* under recorder.lock; NULL removes */

/* ---- guard.c: writes that must not kill the program */

struct stat;
struct guard {
    sigset_t mask, pending;
};
void guard_begin(struct guard *g);
void guard_end(const struct guard *g);
void guard_say(const char *line, size_t length);
bool file_status(int descriptor, struct stat *s);

/* ---- file.c: the trace folder */

bool file_make_folder(char *path, const char *wanted, const char *base);
bool file_open(const char *folder, int rank, int size, const char *host);
struct chunk *file_window(uint32_t thread);
bool file_append(const struct chunk *chunk);
bool file_full(void);
bool file_write(int descriptor, const struct text *t);
bool file_line(const struct text *line);
bool file_selection(const struct text *line);
void file_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void file_close(void);

/* ---- callsite.c, python.c */

struct site {
    uint32_t id;
    const int *wishes; /* rules.c: the rules that name it, NULL: none */
    struct name *name; /* names.c: for messages */
    bool skip;         /* Python: a frame of mpi4py, or of a package to skip */
};
struct site *callsite_find(const void *address);
struct site *site_new(struct map *m, uint64_t key, const struct text *frames);
void callsite_start(void);
struct call;
const struct site *callsite_of(const struct call *c); /* recorded or not */
bool callsite_of_program(const char *frame);
struct site *python_site(void); /* NULL: not from Python, or not to be asked now */
void python_start(void);
void python_forget_preload(const char *value);

/* ---- comm.c */

struct key;
struct keys;
struct scratch { /* scratch.c: alike on all members but for the address */
    char *bytes;
    int64_t room, taken; /* `taken` by the call under way */
    int64_t refused;     /* what some member did not get; 0: nothing */
};
struct communicator {
    uint64_t identity;
    struct communicator *handles; /* handles.c: where its windows and files are made */
    struct communicator *own;     /* of one of many alike: for its persistent operations */
    uint64_t history; /* the last operations that MPI orders here, a byte each: 1 + operation */
    uint32_t id, next;
    int rank, size, remote_size; /* of the own and the remote group */
    int indegree, outdegree;
    bool inter, local;
    bool first_group; /* inter-communicators: the group with the lowest world rank */
    bool everyone;    /* the ranks of MPI_COMM_WORLD, in their order */
    bool agreed;      /* all members take part in what is agreed on it: it may be switched */
    bool failed;      /* an operation has, on this rank */
    bool unrecorded;  /* beyond MOST_COMMUNICATORS */
    uint32_t kin;     /* which of many alike it is, > 0: they share their rows; 0: it has its own */
    uint64_t kind;    /* what those that are alike have in common */
    struct communicator *spare; /* the next of its kind that is free to be used again */
    MPI_Comm handle, private;
    /* private.c */
    bool private_tried; /* all members have asked for one */
    bool reduces;       /* reductions may be switched */
    uint8_t why_not;    /* enum refusal */
    uint32_t asked;     /* times that all members would have used one and had none */
    struct link link;   /* what the members of `private` plan with */
    int64_t private_ns; /* what making `private` took */
    int64_t message_ns; /* of that, each message of a reduction of 8 bytes */
    int *nodes;         /* of the members of `private`, numbered by first appearance */
    /* room.c */
    atomic_int private_state;
    uint32_t used_turn, asked_turn;
    struct keys *keys; /* key.c */
    struct scratch scratch;
};
enum { HISTORY_CREATION = 255 };
struct creation {
    const char *how, *text;
    int tag, text_length;
    struct communicator *parent;
    MPI_Comm parent_handle;
    uint32_t sequence;
    bool counted, failed;
    bool agreed; /* under Sessions: its members have told each other that they switch alike */
    struct creation *outer; /* that a callback of it makes this one */
};
struct freeing {
    struct communicator *comm;
    struct freeing *outer;
};
struct communicator *comm_find(MPI_Comm comm);
struct communicator *comm_adopt(MPI_Comm comm); /* a handle that no wrapper has seen made */
void comm_start(bool sessions);
void comm_making(struct creation *c, MPI_Comm parent, bool counted);
bool comm_made(struct creation *c, int error);
void comm_register(struct creation *c, MPI_Comm made);
void comm_freeing(struct freeing *f, MPI_Comm comm);
void comm_freed(struct freeing *f, int error);
void comm_named(MPI_Comm comm, int error);
bool error_is_local(int error, bool makes);
int comm_living(void);

#if defined(MPIPROF_ABI_openmpi) /* a Fortran handle is an index */
static inline MPI_Comm comm_f2c(MPI_Fint f)
{
    return pmpi.Comm_f2c(f);
}
static inline MPI_Datatype type_f2c(MPI_Fint f)
{
    return pmpi.Type_f2c(f);
}
static inline MPI_Request request_f2c(MPI_Fint f)
{
    return pmpi.Request_f2c(f);
}
static inline MPI_Op op_f2c(MPI_Fint f)
{
    return pmpi.Op_f2c(f);
}
static inline MPI_Session session_f2c(MPI_Fint f)
{
    return pmpi.Session_f2c != NULL ? pmpi.Session_f2c(f) : NULL;
}
static inline MPI_Win win_f2c(MPI_Fint f)
{
    return pmpi.Win_f2c != NULL ? pmpi.Win_f2c(f) : NULL;
}
#elif defined(MPIPROF_ABI_mpich) /* it is the C handle */
#define comm_f2c(f) (f)
#define type_f2c(f) (f)
#define request_f2c(f) (f)
#define op_f2c(f) (f)
#define session_f2c(f) (f)
#define win_f2c(f) (f)
#endif
static inline MPI_File file_f2c(MPI_Fint f)
{
    return pmpi.File_f2c != NULL ? pmpi.File_f2c(f) : NULL;
}

/* ---- handles.c: windows and files, whose calls are counted as a communicator's are */

struct communicator *comm_derive(const struct communicator *like, const char *how, uint32_t number);
struct communicator *handle_own(struct communicator *comm);
void handle_making(struct creation *c, MPI_Comm comm);
void window_register(const struct creation *c, MPI_Win made);
struct communicator *window_find(MPI_Win window);
struct communicator *window_unlink(MPI_Win window);
void window_freed(struct communicator *c, int error, MPI_Win window);
void file_register(const struct creation *c, MPI_File made);
struct communicator *file_find(MPI_File file);
struct communicator *file_unlink(MPI_File file);
void file_freed(struct communicator *c, int error, MPI_File file);

/* ---- shape.c: interned rows of a table: what a call was */

struct shape {
    struct shape *next;
    struct record *summary;
    int64_t sent, received;
    const char *algorithm;
    int root;
    uint32_t id, flags;
};
struct family { /* operation, communicator and call site: what is known when a call begins */
    struct shape base;
    struct shape *_Atomic shapes;
    const struct communicator *comm;
    const struct site *site;
    int operation, count;
};
enum {
    FLAG_IN_PLACE = 1,
    FLAG_INTER = 2,
    FLAG_NONBLOCKING = 4,
    FLAG_PERSISTENT = 8,
    FLAG_ERROR = 16
};
struct family *family_find(int operation, const struct communicator *comm, const struct site *site);
struct shape *shape_find(struct family *f, const char *algorithm, int root, int64_t sent,
                         int64_t received, uint32_t flags);
extern const char *const operation_names[OP_COUNT];

/* Blocking, nonblocking or persistent, as the table of collectives numbers them. */
static inline int operation_form(int operation)
{
    return operation < OP_COLLECTIVES ? operation % 3 : 0;
}

/* ---- record.c: threads, windows, calls */

enum { RECENT = 8 };
struct recent { /* what was found for a call of this thread, by where it came from */
    const void *address, *caller;
    MPI_Comm handle;
    int operation;
    uint32_t generation;
    struct communicator *comm;
    struct site *native; /* NULL: not known by the address alone */
    struct family *family;
};
struct thread {
    struct recent recent[RECENT];
    struct chunk *window;
    int64_t outside_ns, recorder_ns;
    const void *caller;
    /* What this thread is in; no more to be looked at than stack_holds() says: it may have left. */
    struct call *call;
    struct creation *creation;
    struct freeing *freeing;
    struct watch *watch;
    uint32_t used, number, calls;
    bool refused;
};
extern _Thread_local struct thread self;

/* ---- stack.c, handler.c: calls that never come back */

typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
struct span {
    uintptr_t low, high;
};
bool stack_holds(const void *address);
struct span stack_caller(void);
int stack_frames(const void **found, int most);
MPI_Comm_errhandler_function *handler_stand_in(MPI_Comm_errhandler_function *function);

struct call {
    struct communicator *comm;
    struct family *family;
    struct record *record;
    struct site *site;
    MPI_Comm handle;
    const char *algorithm; /* with its parameters; NULL: the library's own */
    const void *address;
    int operation, root;
    uint32_t sequence, shape;
    int64_t begin_ns, enter_ns, exit_ns;
    bool counted, wide;
    bool refused;    /* by the library's check of its arguments: it has taken part in nothing */
    uint32_t kin;    /* in an extension: which of many communicators alike; 0: none */
    bool settled;    /* an error handler has been asked: what follows from the error is done */
    bool running;    /* an algorithm of ours */
    struct key *key; /* auto.c: its statistics are wanted */
    bool inside;     /* select.c: the call may use the private communicator */
    bool watched;    /* of these: not switched, but looked at */
    uint8_t choice, candidate, planned;
};
struct side {
    const void *count, *counts, *displs, *type, *types;
};
struct arguments {
    const void *sendbuf, *recvbuf, *op;
    struct side send, recv;
    bool large, fortran;
};
bool call_begin_slow(struct call *c, int operation, MPI_Comm comm, int root, const void *address);
void call_begin_counted(struct call *c, int operation, struct communicator *comm, uint32_t sequence,
                        const void *address);
bool call_end(struct call *c, int error);
void call_failed(struct call *c, int error);
bool call_within(const void *here);
void call_traffic(struct call *c, const struct arguments *a);
void call_leave(struct call *c);
void traffic(const struct call *c, const struct arguments *a, int64_t *sent, int64_t *received,
             uint32_t *flags);
bool argument_in_place(const struct arguments *a, const void *buffer);
struct request;
void record_start(const struct request *r, int64_t enter_ns, int64_t exit_ns);
void record_completion(const struct request *r, int64_t enter_ns, int64_t exit_ns);
void record_start_up(void);
void record_flush(void);
bool record_window(void);
struct record *record_statistics(uint32_t shape);
int64_t record_overhead_ns(void);
uint64_t record_dropped(void);

/* ---- gather.c: calls that all members make, and that are recorded only */

enum spent { SPENT_POINT_TO_POINT, SPENT_COMPLETION, SPENT_ONE_SIDED, SPENT_FILES, SPENT_NOTHING };
struct turn { /* whose call it is, and its number there; NULL: nobody's that is known */
    struct communicator *comm;
    uint32_t sequence;
};
struct gathering {
    struct call call;
    int64_t since;
    bool recorded;
};
struct turn gathering_of(struct communicator *comm);
struct turn gathering_making(const struct creation *c);
void gathering_begin(struct gathering *g, int operation, struct turn at, const void *address);
void gathering_end(struct gathering *g, int error, enum spent what);

/* ---- spawn.c */

void spawn_remark(const struct creation *c, int root, const char *command, char *const *argv);

/* ---- request.c */

struct request {
    struct request *next;
    uint64_t handle, identity;
    uint32_t sequence, shape;
    int64_t starts;
    bool persistent, active, sampled, held;
};
struct watch {
    struct request **entries;
    struct request *few[8];
    int64_t since;
    const void *handles;
    struct watch *outer;
    int count;
    bool fortran, outside;
};
void request_add(const struct call *c, MPI_Request handle);
void watch_begin(struct watch *w, int count, const void *handles, bool fortran);
void watch_all(struct watch *w, int error, bool done);
void watch_one(struct watch *w, int error, bool done, const int *index, int base);
void watch_some(struct watch *w, int error, const int *count, const int *indices, int base);
void watch_seen(struct watch *w, int error, bool done);
void watch_start(struct watch *w, int error);
void watch_free(struct watch *w, int error);
void watch_failed(struct watch *w);

/* ---- select.c: running another algorithm than the library's */

void select_start(void);
void select_end(MPI_Comm comm);
void select_forget(struct communicator *c);
void select_inherit(struct communicator *child, const struct communicator *parent);
bool switch_run(struct call *c, const struct arguments *a, int *error);
void switch_end(struct call *c);
void rules_meet(struct site *s, const char *frame);

/* ---- fingerprint.c */

int64_t fingerprint(void);
extern const char wrapped_level[]; /* of the entry points that are wrapped: wrappers.py */

/* ---- lifecycle.c: MPI_Init to MPI_Finalize */

struct options {
    const char *trace, *base, *program, *command, *machine, *skip_packages, *version;
    const char *job;   /* its name, which no other job has here */
    const char *alone; /* the trace folder of a process that can't be told any */
    unsigned sample;
    int stack;
    int64_t limit; /* bytes of a rank's log */
    int alike;     /* communicators that have rows of their own, of those that are alike */
    int runs;      /* of members that each of them writes */
    bool summary, partial, quiet;
    bool several, together; /* parts of the launch: there are, and all of them record */
    bool unrecorded;        /* no trace can be made here: this process only takes part */
    enum { PYTHON_AUTO, PYTHON_ALWAYS, PYTHON_NEVER } python;
};
struct recorder {
    atomic_bool active;     /* calls are recorded */
    atomic_bool paused;     /* MPI_Pcontrol(0): counted, not recorded */
    atomic_bool stopped;    /* disk full: counted, dropped */
    atomic_bool limited;    /* the log is as long as it may be: counted, summed up */
    bool switching;         /* calls may run on algorithms of ours */
    bool by_site;           /* some rules name call sites */
    bool names_sites;       /* sites have names, for messages */
    bool agreed;            /* all ranks were given the same rules, and run the same recorder */
    bool sessions;          /* there are Sessions alone, without MPI_COMM_WORLD */
    bool begun_apart;       /* of these: this process began with others that had before */
    bool passive;           /* this process never had files to write to */
    bool speaks;            /* for all that write to this folder */
    atomic_uint generation; /* changes whenever a handle comes to name another communicator */
    atomic_int pending;     /* nonblocking and persistent operations not complete or freed */
    int rank, size;         /* in MPI_COMM_WORLD, or in mpi://WORLD under Sessions */
    uint64_t job;
    int64_t entered_ns; /* MPI_Init */
    MPI_Comm private;   /* a duplicate of the first communicator, or MPI_COMM_NULL */
    MPI_Group world;
    char folder[PATH_BYTES];
    char note[256]; /* for the tables, once they are open */
    struct options options;
};
extern struct recorder recorder;
void recorder_lock(void);
void recorder_unlock(void);
void recorder_initialising(void);
void recorder_initialised(int error);
void recorder_finalising(struct gathering *g, const void *address);
void recorder_finalised(struct gathering *g, int error);
void recorder_aborting(void);
void recorder_session(int error, MPI_Session session);
void recorder_session_ending(void);
bool recorder_group_created(MPI_Comm comm);
void recorder_options(void); /* options.c */
void options_leave_environment(void);
const char *meta_library(void); /* meta.c: the library's name and version, one line */
void meta_now(char *stamp, size_t room);
void meta_process(const char *host);
bool meta_read(const char *path, struct text *t);
bool meta_write(bool with_world, const struct text *machine, const char *skipped);
bool recorder_join(MPI_Comm comm, int rank, int size, bool with_world); /* join.c */
bool recorder_join_again(MPI_Comm comm);
void join_say(void);
void join_end(void);
void parts_mark(void); /* parts.c; before MPI_Init */
bool parts_several(bool with_world);
void parts_find(bool *here, int size);
bool parts_leader(void);
void parts_end(int size);
void recorder_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the first steps of every wrapper */

static inline bool call_begin(struct call *c, int operation, MPI_Comm comm, int root,
                              const void *address)
{
    if (!atomic_load_explicit(&recorder.active, memory_order_relaxed) ||
        (self.call != NULL && call_within(c)))
        return false;
    return call_begin_slow(c, operation, comm, root, address);
}

static inline int64_t outside_begin(void)
{
    if (!atomic_load_explicit(&recorder.active, memory_order_relaxed) ||
        (self.call != NULL && call_within(__builtin_frame_address(0))))
        return 0;
    return now_ns();
}

/* Adds to what this thread has spent in calls without a record; what is said of the arrivals at a
 * collective knows of messages only, so only those go into the next record. */
static inline void spent_add(enum spent what, int64_t ns)
{
    if (what <= SPENT_COMPLETION)
        self.outside_ns += ns;
    if (self.window == NULL && !record_window())
        return;
    struct chunk_head *const head = &self.window->head;

    switch (what) {
    case SPENT_POINT_TO_POINT: head->point_to_point_ns += ns; break;
    case SPENT_COMPLETION: head->completion_ns += ns; break;
    case SPENT_ONE_SIDED: head->one_sided_ns += ns; break;
    case SPENT_FILES: head->files_ns += ns; break;
    case SPENT_NOTHING: break;
    }
}

static inline void outside_end(int64_t since, enum spent what)
{
    if (since != 0)
        spent_add(what, now_ns() - since);
}

/* A Fortran layer that calls C names: the site is its caller. */
static inline const void *caller_enter(const void *address)
{
    const void *const outer = self.caller;

    if (outer == NULL)
        self.caller = address;
    return outer;
}

static inline void caller_leave(const void *outer)
{
    self.caller = outer;
}
