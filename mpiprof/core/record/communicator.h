/* What is known of a communicator, and of one that is being made or freed. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"
#include "machine/machine.h"

struct keys;
struct scratch { /* scratch.c: alike on all members but for the address */
    char *bytes;
    int64_t room, taken; /* `taken` by the call under way */
    int64_t refused;     /* what some member did not get; 0: nothing */
    bool begun;
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
    int64_t kin;      /* which of many alike it is, > 0: they share their rows; 0: it has its own */
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
    uint8_t obstacle;   /* enum obstacle: to naming the library's own algorithms to it */
    /* duplicate.c */
    struct duplicate *duplicates;         /* of `private`, one for each algorithm in use */
    int duplicate_asked, duplicate_count; /* of them these are there */
    /* room.c */
    atomic_int private_state;
    uint32_t used_turn, asked_turn;
    struct keys *keys; /* key.c */
    struct scratch scratch;
};
enum { HISTORY_CREATION = 255 };
/* The addresses of what a call was given; NULL: it has no such argument. */
struct creation_arguments {
    const MPI_Group *group; /* in C alone */
    const int *root, *local_leader, *color;
    const int *ndims, *dims;           /* Cart_create */
    const int *nnodes, *index, *edges; /* Graph_create */
    const int *n, *degrees;            /* Dist_graph_create */
    const int *indegree, *outdegree;   /* Dist_graph_create_adjacent */
    const int *sources, *destinations; /* both of these */
    bool result_is_null;               /* no address for the new communicator */
};
struct creation {
    const char *how, *text;
    struct creation_arguments given;
    int tag, text_length;
    struct communicator *parent;
    MPI_Comm parent_handle;
    uint32_t sequence;
    bool counted, failed;
    bool under_way; /* making.c */
    bool agreed;    /* under Sessions: its members have told each other that they switch alike */
    struct creation *outer; /* that a callback of it makes this one */
    uint64_t stamp, outer_stamp;
};
struct freeing {
    struct communicator *comm;
    struct freeing *outer;
    uint64_t stamp, outer_stamp;
};
