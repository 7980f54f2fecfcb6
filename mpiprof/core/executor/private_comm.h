/* Private communicators for calls that run on schedules (private_comm.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "executor/comm_state.h"
#include "record/comm.h"
#include "timing/machine.h"

enum refusal {
    REFUSED_NOT,
    REFUSED_FULL,
    REFUSED_DEVICE,
    REFUSED_MEMORY,
    REFUSED_BY_MPI,
    REFUSED_UNSURE,
    REFUSED_BUSY,
    REFUSALS
};
bool private_comm_ready(struct communicator *k, MPI_Comm comm);
int private_comm_refused(enum refusal why);
bool private_comm_may_come(const struct communicator *k);
void private_comm_freed(struct communicator *k);
int64_t private_comm_least(const struct communicator *k, MPI_Comm comm, int64_t value);

static inline bool has_private(const struct communicator *k)
{
    return private_of(k)->tried && private_of(k)->comm != MPI_COMM_NULL;
}

/* Link parameters for predictions: the agreed ones, or before agreement the values of MPI_Init. */
static inline const struct link *link_of(const struct communicator *k)
{
    return has_private(k) ? &private_of(k)->link : &machine_link;
}

/* Return true if every member can detect a reduction that the library would refuse, and before
 * agreement. */
static inline bool may_reduce(const struct communicator *k)
{
    return !has_private(k) || private_of(k)->reduces;
}
