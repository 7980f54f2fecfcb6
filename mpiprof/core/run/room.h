/* How many private communicators there may be: room.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/comm.h"

/* What the members of a communicator agree on when its private one is made: the maximum over all.
 */
enum fact {
    FACT_ALPHA, /* the link that they plan with: positive numbers, as their bits */
    FACT_BETA,
    FACT_PACE,
    FACT_BUFFER,
    FACT_CANNOT_REDUCE,  /* a member has nobody to ask whether an operation is for a type */
    FACT_DEVICE,         /* one uses a device, whose memory the host may not touch */
    FACT_NO_MEMORY,      /* one has asked for memory in vain */
    FACT_MANY,           /* one has too many communicators to risk another */
    FACT_FULL,           /* one has as many private ones as it may have: room.c */
    FACT_VICTIM,         /* which of its own it would give up; 0: none */
    FACT_OBSTACLE,       /* to naming the library's own algorithms to it: setting.h */
    FACT_SETTINGS,       /* which of its settings there are: all must have the same, */
    FACT_MINUS_SETTINGS, /* as for the identity */
    FACT_THREADS,        /* one may make communicators in several threads at once */
    FACT_IDENTITY,       /* whether all mean the same communicator: the greatest identity, */
    FACT_MINUS_IDENTITY, /* and minus the least */
    FACTS
};

struct vote {                    /* on a communicator that is to make room */
    struct communicator *victim; /* this rank's, held until room_settle; NULL: it has none */
    bool gone;                   /* all of its members have it idle: it goes */
    bool room;                   /* then the members that voted have room */
};
void room_enter(struct communicator *k);
void room_exit(struct communicator *k);
bool room_for_duplicate(void);
void room_facts(const struct communicator *k, int64_t *facts);
struct vote room_vote(const struct communicator *k, MPI_Comm comm, const int64_t *facts);
void room_settle(const struct vote *v);
void room_take(struct communicator *k);
void room_use(struct communicator *k);
void room_asked(struct communicator *k);
void room_leave(struct communicator *k);
