/* Communicators, windows and files: their entries, and creations or freeings in progress. */
#pragma once
#include "base/base.h"
#include "base/symbol_lookup.h"

/* ---- state of a communicator, and of a creation or freeing in progress */

struct topology {
    int indegree, outdegree; /* number of neighbours; 0 without a topology */
};
struct equivalence { /* comm_id.c: equivalent communicators share an entry, one after the other */
    int64_t number;  /* of the communicator among equivalent ones; 0 if it shares no entry */
    uint64_t kind;   /* hash that equivalent communicators share */
    struct communicator *next_free;
};
struct derived_entries {             /* window_file_comm.c */
    struct communicator *creator;    /* on which windows and files are created */
    struct communicator *persistent; /* rows of persistent operations, if the entry is shared */
};
struct epochs { /* of a window (local_call.c) */
    atomic_uint posts, starts;
};
struct open_receives {            /* message_side.c */
    atomic_int wildcards;         /* for any source or any tag, posted and not complete */
    atomic_int any_source;        /* those of them for any source */
    atomic_uint beside_wildcards; /* receives that were numbered while wildcards were open */
    atomic_bool
        order_is_unknown; /* a lost, cancelled or failed receive may have matched a message */
};
/* A communicator's entry. The first 64 bytes serve the path of every call. Behind it follows the
 * state of the layers that select algorithms (executor/private_comm.h). */
struct communicator {
    uint64_t identity;
    uint64_t history;  /* the last blocking operations here, one byte each: 1 + operation */
    uint32_t next, id; /* sequence number of the next operation; number in the tables */
    uint32_t blocking; /* number of blocking collectives so far */
    int rank, size, remote_size; /* of the local and the remote group */
    bool inter, local;
    bool first_group; /* inter-communicators: true in the group with the lowest world rank */
    bool everyone;    /* the members are the ranks of MPI_COMM_WORLD, in order */
    bool has_steps;   /* its collectives count for the first steps (message_epochs.c) */
    bool agreed;      /* all members agree on selection, so algorithms may be selected */
    bool failed;      /* an operation has failed on this rank */
    bool unrecorded;  /* beyond MOST_COMMUNICATORS */
    struct equivalence equivalence;
    MPI_Comm handle;
    struct topology topology;
    struct derived_entries derived;
    struct open_receives receives;
    struct epochs epochs;
};
enum { HISTORY_CREATION = 255 };
/* Addresses of the arguments that a call received; NULL if it has no such argument. */
struct creation_arguments {
    const MPI_Group *group; /* only in C */
    const int *root, *local_leader, *color;
    const int *ndims, *dims;           /* Cart_create */
    const int *nnodes, *index, *edges; /* Graph_create */
    const int *n, *degrees;            /* Dist_graph_create */
    const int *indegree, *outdegree;   /* Dist_graph_create_adjacent */
    const int *sources, *destinations; /* Dist_graph_create and Dist_graph_create_adjacent */
    bool result_is_null;               /* the address for the new communicator is NULL */
};
/* A call on messages, creation, freeing or completion that a thread is in. A callback may start
 * another one within it. The stamp equals that of the object while the object is valid, because an
 * abandoned object may be inside a current frame. */
struct activity {
    void *object;
    uint64_t stamp;
};
struct creation {
    const char *how, *text;
    struct creation_arguments given;
    int tag, text_length;
    struct communicator *parent;
    MPI_Comm parent_handle;
    uint32_t sequence;
    bool counted, failed;
    bool nonblocking; /* MPI_Comm_idup */
    bool holds_lock;  /* comm_create_lock.c */
    bool agreed;      /* with Sessions: the members have verified that their selections agree */
    struct activity outer;
    uint64_t stamp;
};
struct freeing {
    struct communicator *comm;
    struct activity outer;
    uint64_t stamp;
};

/* ---- communicator table and the order of operations on each communicator (comm.c) */

struct communicator *comm_find(MPI_Comm comm);
struct communicator *comm_adopt(MPI_Comm comm); /* for a handle that no wrapper saw being created */
void comm_start(void);
void comm_creation_begin(struct creation *c, MPI_Comm parent, bool counted);
bool comm_creation_end(struct creation *c, int error);
void comm_register(struct creation *c, MPI_Comm made);
void comm_free_begin(struct freeing *f, MPI_Comm comm);
void comm_free_end(struct freeing *f, int error);
void comm_name_changed(MPI_Comm comm, int error);
extern struct communicator *_Atomic comm_first; /* MPI_COMM_WORLD except under Sessions */
extern atomic_int comm_live_count; /* communicators that the program has created and not freed */
struct communicator *comm_derive(const struct communicator *like, const char *how, uint32_t number);
struct members;
struct communicator *comm_derive_group(const struct communicator *window, uint64_t identity,
                                       const struct members *m);

/* Return true on rank 0 of the private communicator, which decides for all members. */
static inline bool comm_is_leader(const struct communicator *k)
{
    return k->rank == 0 && (!k->inter || k->first_group);
}

/* ---- members of a communicator (members.c) */

struct members {
    int count, *ranks; /* world ranks */
    bool foreign;
};

struct members members_all(int size);
bool members_are_all(const struct members *m);
struct members members_of(MPI_Comm comm, bool remote, int size);
struct members members_of_group(MPI_Group group);
uint64_t members_hash(const struct members *m);
int members_lowest(const struct members *m);
void members_write(struct text *t, const struct members *m);
void members_write_runs(struct text *t, const struct members *m);

/* ---- identity of a communicator (comm_id.c) */

uint64_t comm_id_agreed(const struct creation *how, const struct members *mine,
                        const struct members *others, bool inter);
uint64_t comm_id_local(void);
int64_t comm_id_equivalence(const struct creation *how, struct communicator *c, MPI_Comm comm,
                            const struct members *mine);
struct communicator *comm_id_reuse_entry(uint64_t kind);
void comm_id_release_entry(struct communicator *c);

/* ---- neighbours in a communicator's topology (topology.c) */

struct topology topology_write(struct text *t, MPI_Comm comm, int rank);

/* ---- lock between creations of communicators by the program and by mpiprof
 * (comm_create_lock.c) */

bool comm_create_lock_has_threads(void);
void comm_create_lock_begin(bool *under_way);
void comm_create_lock_end(bool *under_way);
void comm_create_lock_note_idup(uint64_t key);
uint64_t comm_create_lock_sum_idups(void);
void comm_create_lock_count_pending(int change);
bool comm_create_lock_has_pending(void);
bool comm_create_lock_try_exclusive(void);
void comm_create_lock_end_exclusive(void);

/* ---- entries of windows and files (window_file_comm.c) */

extern struct map window_file_comm_windows, window_file_comm_files; /* by handle */
struct communicator *window_file_comm_persistent(struct communicator *comm);
void window_file_comm_creation_begin(struct creation *c, MPI_Comm comm);
void window_file_comm_register(struct map *table, uint64_t key, const struct creation *c);
struct communicator *window_file_comm_unlink(struct map *table, uint64_t key);
void window_file_comm_freed(struct map *table, uint64_t key, struct communicator *c, int error);
const struct communicator *window_file_comm_group(const struct communicator *window,
                                                  MPI_Group group);

/* ---- detection of calls that the library rejected before its first message (refusal.c) */

bool refusal_is_by_class(int error);
bool refusal_is_of_creation(const struct creation *c, int error);

/* ---- message about spawned processes (spawn.c) */

void spawn_report(const struct creation *c, int root, const char *command, char *const *argv);
