/* What private.c, which makes private communicators, and room.c, which counts them, know of each
 * other. */
#pragma once
#include "switch.h"

/* What the members of a communicator agree on when its private one is made: the maximum over all.
 */
enum fact {
    FACT_ALPHA, /* the link that they plan with: positive numbers, as their bits */
    FACT_BETA,
    FACT_PACE,
    FACT_BUFFER,
    FACT_CANNOT_REDUCE, /* a member has nobody to ask whether an operation is for a type */
    FACT_DEVICE,        /* one uses a device, whose memory the host may not touch */
    FACT_NO_MEMORY,     /* one has asked for memory in vain */
    FACT_MANY,          /* one has too many communicators to risk another */
    FACT_FULL,          /* one has as many private ones as it may have: room.c */
    FACT_VICTIM,        /* which of its own it would give up; 0: none */
    FACTS
};

void room_facts(const struct communicator *k, int64_t *facts);
bool room_make(const struct communicator *k, MPI_Comm comm, const int64_t *facts);
void room_take(struct communicator *k);
void room_use(struct communicator *k);
void room_asked(struct communicator *k);
void room_leave(struct communicator *k);
void private_forget(struct communicator *k);
