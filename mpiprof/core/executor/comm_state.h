/* State of the executor for a communicator. It follows the communicator's entry in memory, so that
 * a call reaches it without another pointer. Each structure is written by the named file only. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "record/communicator.h"
#include "timing/machine.h"

struct duplicate;
struct keys;

struct private_comm { /* private_comm.c */
    MPI_Comm comm;    /* for an inter-communicator, of both groups merged; or MPI_COMM_NULL */
    int *nodes;       /* of the members of `comm`, numbered by first appearance */
    bool tried;       /* all members have requested one; until then `comm` is undefined */
    bool reduces;     /* algorithms may be selected for reductions */
    uint8_t why_not;  /* enum refusal */
    uint8_t obstacle; /* enum obstacle: reason why library algorithms cannot be requested */
    uint32_t asked;   /* number of calls in which all members would have used one and had none */
    struct link link; /* link parameters that the members of `comm` use in predictions */
    int64_t creation_ns;
    int64_t message_ns; /* part of that: time per message of an 8-byte reduction */
};
struct private_comm_use { /* private_comm_pool.c */
    atomic_int state;
    uint32_t used_turn, asked_turn;
};
struct algorithm_comms {    /* algorithm_comms.c */
    struct duplicate *list; /* duplicates of the private communicator, one per algorithm in use */
    int asked, made;
};
struct scratch { /* scratch.c: equal on all members, except the address */
    char *bytes;
    int64_t room, taken; /* `taken` by the current call */
    int64_t refused;     /* smallest size that some member could not allocate; 0 if there is none */
    bool begun;
};
struct comm_state {
    struct private_comm_use use;
    struct private_comm private;
    struct scratch scratch;
    struct algorithm_comms algorithms;
    struct keys *keys; /* selection/rules/key.c */
};

static inline struct comm_state *comm_state(const struct communicator *k)
{
    return (struct comm_state *)((uintptr_t)k + sizeof *k);
}

static inline struct private_comm *private_of(const struct communicator *k)
{
    return &comm_state(k)->private;
}

static inline struct scratch *scratch_of(const struct communicator *k)
{
    return &comm_state(k)->scratch;
}
