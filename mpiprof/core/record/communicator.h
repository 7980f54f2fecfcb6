/* State of a communicator, and of a creation or freeing in progress. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

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
/* A communicator's entry. The first 64 bytes serve the path of every call. Behind it follows the
 * state of the layers that select algorithms (executor/comm_state.h). */
struct communicator {
    uint64_t identity;
    uint64_t history;  /* the last operations that MPI orders here, one byte each: 1 + operation */
    uint32_t next, id; /* sequence number of the next operation; number in the tables */
    int rank, size, remote_size; /* of the local and the remote group */
    bool inter, local;
    bool first_group; /* inter-communicators: true in the group with the lowest world rank */
    bool everyone;    /* the members are the ranks of MPI_COMM_WORLD, in order */
    bool agreed;      /* all members agree on selection, so algorithms may be selected */
    bool failed;      /* an operation has failed on this rank */
    bool unrecorded;  /* beyond MOST_COMMUNICATORS */
    struct equivalence equivalence;
    MPI_Comm handle;
    struct topology topology;
    struct derived_entries derived;
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
struct creation {
    const char *how, *text;
    struct creation_arguments given;
    int tag, text_length;
    struct communicator *parent;
    MPI_Comm parent_handle;
    uint32_t sequence;
    bool counted, failed;
    bool under_way; /* comm_create_lock.c */
    bool agreed;    /* with Sessions: the members have verified that their selections agree */
    struct creation *outer; /* the creation in which a callback started this one */
    uint64_t stamp, outer_stamp;
};
struct freeing {
    struct communicator *comm;
    struct freeing *outer;
    uint64_t stamp, outer_stamp;
};
