/* Limit on the number of private communicators (private_comm_pool.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/comm.h"

/* Facts of which the members of a new private communicator compute the maximum. */
enum fact {
    FACT_ALPHA, /* link parameters for predictions: the bits of positive numbers */
    FACT_BETA,
    FACT_PACE,
    FACT_BUFFER,
    FACT_CANNOT_REDUCE,  /* a member cannot check an operation's datatype */
    FACT_DEVICE,         /* a member uses a device */
    FACT_NO_MEMORY,      /* a memory allocation failed on a member */
    FACT_MANY,           /* a member has too many communicators to risk another */
    FACT_FULL,           /* a member has reached the limit of private communicators */
    FACT_VICTIM,         /* communicator that a full member would evict; 0 for none */
    FACT_OBSTACLE,       /* greatest obstacle to requesting library algorithms */
    FACT_SETTINGS,       /* the library's control variables, which must be equal on all members, */
    FACT_MINUS_SETTINGS, /* so that maximum and minimum must agree */
    FACT_THREADS,        /* a member may create communicators in several threads at once */
    FACT_IDENTITY,       /* greatest identity: all members must mean the same communicator */
    FACT_MINUS_IDENTITY, /* minus the least identity */
    FACTS
};

struct vote { /* vote on a communicator to be evicted */
    /* this rank's victim, locked until private_comm_pool_settle; NULL if it has none */
    struct communicator *victim;
    bool gone; /* all members of the victim have it idle, so it is evicted */
    bool room; /* all voters have room for another communicator after the eviction */
};
void private_comm_pool_enter(struct communicator *k);
void private_comm_pool_exit(struct communicator *k);
bool private_comm_pool_for_duplicate(void);
void private_comm_pool_facts(const struct communicator *k, int64_t *facts);
struct vote private_comm_pool_vote(const struct communicator *k, MPI_Comm comm,
                                   const int64_t *facts);
void private_comm_pool_settle(const struct vote *v);
void private_comm_pool_take(struct communicator *k);
void private_comm_pool_use(struct communicator *k);
void private_comm_pool_asked(struct communicator *k);
void private_comm_pool_leave(struct communicator *k);
