/* Private communicators, their memory, and their number. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/communicator.h"
#include "schedule/schedule.h"
#include "timing/timing.h"

/* ---- state of the executor for a communicator. It follows the communicator's entry in memory,
 * so that a call reaches it without another pointer. Each structure is written by the named file
 * only */

struct duplicate;
struct keys;

struct private_comm {  /* private_comm.c */
    MPI_Comm comm;     /* for an inter-communicator, of both groups merged; or MPI_COMM_NULL */
    int *nodes;        /* of the members of `comm`, numbered by first appearance */
    bool requested;    /* all members have requested one; until then `comm` is undefined */
    bool reduces;      /* algorithms may be selected for reductions */
    uint8_t refusal;   /* enum refusal */
    uint8_t obstacle;  /* enum obstacle: reason why library algorithms cannot be requested */
    uint32_t requests; /* number of calls in which all members would have used one and had none */
    struct link link;  /* link parameters that the members of `comm` use in predictions */
    int64_t creation_ns;
    int64_t message_ns; /* part of that: time per message of an 8-byte reduction */
};
struct private_comm_use { /* private_comm_pool.c */
    atomic_int state;
    uint32_t used_at, requested_at;
};
struct algorithm_comms {    /* algorithm_comms.c */
    struct duplicate *list; /* duplicates of the private communicator, one per algorithm in use */
    int count, live_count;
};
struct scratch { /* scratch.c: equal on all members, except the address */
    char *bytes;
    int64_t size, used; /* `used` by the current call */
    int64_t refused;    /* smallest size that some member could not allocate; 0 if there is none */
    bool started;
};
struct comm_state {
    struct private_comm_use use;
    struct private_comm private;
    struct scratch scratch;
    struct algorithm_comms algorithms;
    struct keys *keys; /* selection/online/key.c */
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

/* ---- private communicators for calls that run on schedules (private_comm.c) */

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
extern atomic_int private_comm_refusals[REFUSALS]; /* communicators, counted by their rank 0 */
bool private_comm_ready(struct communicator *k, MPI_Comm comm);
bool private_comm_is_postponed(const struct communicator *k);
void private_comm_freed(struct communicator *k);
int64_t private_comm_minimum(const struct communicator *k, MPI_Comm comm, int64_t value);

static inline bool private_comm_exists(const struct communicator *k)
{
    return private_of(k)->requested && private_of(k)->comm != MPI_COMM_NULL;
}

/* Link parameters for predictions: the agreed ones, or before agreement the values of MPI_Init. */
static inline const struct link *private_comm_link(const struct communicator *k)
{
    return private_comm_exists(k) ? &private_of(k)->link : &machine_link;
}

/* Return true if every member can detect a reduction that the library would refuse, and before
 * agreement. */
static inline bool private_comm_may_reduce(const struct communicator *k)
{
    return !private_comm_exists(k) || private_of(k)->reduces;
}

/* ---- limit on the number of private communicators (private_comm_pool.c) */

/* Facts of which the members of a new private communicator compute the maximum. */
enum fact {
    FACT_LINK,              /* the four numbers of struct link, for predictions */
    FACT_CANNOT_REDUCE = 4, /* a member cannot check an operation's datatype */
    FACT_DEVICE,            /* a member uses a device */
    FACT_NO_MEMORY,         /* a memory allocation failed on a member */
    FACT_MANY,              /* a member has too many communicators to risk another */
    FACT_FULL,              /* a member has reached the limit of private communicators */
    FACT_VICTIM,            /* communicator that a full member would evict; 0 for none */
    FACT_OBSTACLE,          /* greatest obstacle to requesting library algorithms */
    FACT_SETTINGS,       /* the library's control variables, which must be equal on all members, */
    FACT_MINUS_SETTINGS, /* so that maximum and minimum must agree */
    FACT_IDENTITY,       /* greatest identity: all members must mean the same communicator */
    FACT_MINUS_IDENTITY, /* minus the least identity */
    FACTS
};

void private_comm_pool_enter(struct communicator *k);
void private_comm_pool_exit(struct communicator *k);
bool private_comm_pool_allows_duplicate(void);
void private_comm_pool_facts(const struct communicator *k, int64_t *facts);
bool private_comm_pool_is_full(void);
struct communicator *private_comm_pool_lock(int64_t subject);
void private_comm_pool_add(struct communicator *k);
void private_comm_pool_use(struct communicator *k);
void private_comm_pool_note_request(struct communicator *k);
void private_comm_pool_remove(const struct communicator *k);

/* ---- communicators with which Open MPI runs a requested algorithm (algorithm_comms.c) */

MPI_Comm algorithm_comm_ready(struct communicator *k, int number, int64_t segment);
void algorithm_comm_forget(struct communicator *k);

/* ---- scratch memory on which the members of a communicator agree (scratch.c) */

/* Bytes that each region has from the start, if memory is available. */
enum { SCRATCH_SURE = 1 << 16 };

struct scratch_note {
    const struct algorithm *algorithm; /* the omitted algorithm with the largest requirement */
    int64_t bytes;
    uint64_t times;
};
extern struct scratch_note scratch_omitted;
int64_t scratch_rounded(int64_t bytes);
bool scratch_fits(const struct communicator *k, int64_t bytes);
void scratch_note_omitted(const struct communicator *k, const struct algorithm *a, int64_t bytes);
void scratch_ensure_first(struct communicator *k);
bool scratch_ensure(struct communicator *k, int64_t bytes);
bool scratch_agree(struct communicator *k, int64_t *bytes);
void *scratch_allocate(struct communicator *k, int64_t bytes);
void scratch_reset(struct communicator *k);
void scratch_free(struct communicator *k);
