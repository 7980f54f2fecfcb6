/* State of a communicator, and of a creation or freeing in progress. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "timing/machine.h"

struct keys;
struct scratch { /* scratch.c: equal on all members, except the address */
    char *bytes;
    int64_t room, taken; /* `taken` by the current call */
    int64_t refused;     /* smallest size that some member could not allocate; 0 if there is none */
    bool begun;
};
struct communicator {
    uint64_t identity;
    struct communicator *handles; /* window_file_comm.c: parent entry of its windows and files */
    struct communicator *own;     /* for persistent operations, if it shares its entry */
    uint64_t history; /* the last operations that MPI orders here, one byte each: 1 + operation */
    uint32_t id, next;
    int rank, size, remote_size; /* of the local and the remote group */
    int indegree, outdegree;
    bool inter, local;
    bool first_group; /* inter-communicators: true in the group with the lowest world rank */
    bool everyone;    /* the members are the ranks of MPI_COMM_WORLD, in order */
    bool agreed;      /* all members agree on selection, so algorithms may be selected */
    bool failed;      /* an operation has failed on this rank */
    bool unrecorded;  /* beyond MOST_COMMUNICATORS */
    int64_t kin;      /* number among equivalent communicators, which share rows; 0 if none */
    uint64_t kind;    /* hash that equivalent communicators share */
    struct communicator *spare; /* next free entry of the same `kind` */
    MPI_Comm handle, private;
    /* private_comm.c */
    bool private_tried; /* all members have requested one */
    bool reduces;       /* algorithms may be selected for reductions */
    uint8_t why_not;    /* enum refusal */
    uint32_t asked;     /* number of calls in which all members would have used one and had none */
    struct link link;   /* link parameters that the members of `private` use in predictions */
    int64_t private_ns; /* time that the creation of `private` took */
    int64_t message_ns; /* part of that: time per message of an 8-byte reduction */
    int *nodes;         /* of the members of `private`, numbered by first appearance */
    uint8_t obstacle;   /* enum obstacle: reason why library algorithms cannot be requested */
    /* algorithm_comms.c */
    struct duplicate *duplicates;         /* of `private`, one per algorithm in use */
    int duplicate_asked, duplicate_count; /* number of existing duplicates */
    /* private_comm_pool.c */
    atomic_int private_state;
    uint32_t used_turn, asked_turn;
    struct keys *keys; /* key.c */
    struct scratch scratch;
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
