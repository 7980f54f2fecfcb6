/* Room for private communicators: how many a process may have, and which one makes room.
 *
 * Context ids are the program's: MPICH has 2043, and what it makes must be made as bare. So a
 * process has at most MOST private ones at a time. That a member has no more is agreed with the
 * others (private.c). Then the member proposes the one that it has not used for the longest, and:
 *
 *      k's members    propose a victim j (k's facts) --> vote: j's members, by who has it idle
 *                     all of j's members are here, and none is in a call on j: all free j's
 *
 * A communicator that has asked once is not worth another's place; for one that asks again only
 * what was not used since it asked last gives way.
 *
 * Threads: the table is under recorder.lock. A call on j (`room_enter` to `room_exit`) and a vote
 * for j exclude each other: who comes between a vote and its end waits for it. That end waits for
 * nobody but k's members, who are all in the same call by then.
 */
#include <sched.h>

#include "base/hash.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "record/comm.h"
#include "run/room.h"

enum { MOST = 64, PLACES = 128 }; /* threads that ask at once may get some more than MOST */
enum { IDLE, BUSY, LEAVING };

static struct communicator *living[PLACES]; /* those that have a private one */
static int count;
static uint32_t turns; /* times that a private communicator was used or asked for */

/* ---- who is using what */

/* A call that may use k's private communicator, or frees it, begins. Only one thread at a time. */
static void enter(struct communicator *k)
{
    for (;;) {
        int state = IDLE;

        if (atomic_compare_exchange_strong(&k->private_state, &state, BUSY) || state == BUSY)
            return;
        sched_yield();
    }
}

void room_enter(struct communicator *k)
{
    if (atomic_load_explicit(&k->private_state, memory_order_relaxed) != BUSY)
        enter(k);
}

void room_exit(struct communicator *k)
{
    atomic_store_explicit(&k->private_state, IDLE, memory_order_release);
}

static uint32_t turn(void)
{
    return __atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
}

void room_use(struct communicator *k)
{
    k->used_turn = turn();
}

void room_asked(struct communicator *k)
{
    k->asked_turn = turn();
}

/* ---- the table */

void room_take(struct communicator *k)
{
    recorder_lock();
    if (count < PLACES) /* else it never makes room */
        living[count++] = k;
    recorder_unlock();
    room_use(k);
}

static void remove_from_table(const struct communicator *k)
{
    recorder_lock();
    for (int i = 0; i < count; i++)
        if (living[i] == k) {
            living[i] = living[--count];
            break;
        }
    recorder_unlock();
}

/* The user frees k. */
void room_leave(struct communicator *k)
{
    enter(k);
    remove_from_table(k);
}

/* ---- making room */

static struct communicator *least_used(const struct communicator *k)
{
    struct communicator *found = NULL;

    for (int i = 0; k->asked > 1 && i < count; i++)
        if (!living[i]->inter && living[i]->size <= k->size &&
            (int32_t)(living[i]->used_turn - k->asked_turn) < 0 &&
            (found == NULL || (int32_t)(living[i]->used_turn - found->used_turn) < 0))
            found = living[i];
    return found;
}

/* How many this process has. */
static int taken(void)
{
    int sum = count;

    for (int i = 0; i < count; i++)
        sum += living[i]->duplicate_count;
    return sum;
}

/* Whether there is a place for one more duplicate: half of the places are for others. */
bool room_for_duplicate(void)
{
    recorder_lock();
    const int all = taken();
    const bool room = all < MOST && all - count < MOST / 2;

    recorder_unlock();
    return room;
}

static bool is_full(void)
{
    recorder_lock();
    const bool full = taken() >= MOST;

    recorder_unlock();
    return full;
}

/* What a vote is about: j, where as many calls on it have begun. Of those that have it idle they
 * have ended, too, so that nothing of the program's is on its way. */
static int64_t name_of(const struct communicator *j)
{
    return (int64_t)(hash_mix(j->identity, j->next) >> 1);
}

/* Whether this member has no room, and which one it would give up. */
void room_facts(const struct communicator *k, int64_t *facts)
{
    recorder_lock();
    const bool full = taken() >= MOST;
    const struct communicator *const victim = full ? least_used(k) : NULL;

    facts[FACT_FULL] = full;
    facts[FACT_VICTIM] = victim != NULL ? name_of(victim) : 0;
    recorder_unlock();
}

/* This member's, if no call is on it: from now on none begins. */
static struct communicator *victim_hold(int64_t name)
{
    struct communicator *found = NULL;

    recorder_lock();
    for (int i = 0; i < count && found == NULL; i++) {
        int idle = IDLE;

        if (!atomic_compare_exchange_strong(&living[i]->private_state, &idle, LEAVING))
            continue;
        if (name_of(living[i]) == name)
            found = living[i];
        else
            room_exit(living[i]);
    }
    recorder_unlock();
    return found;
}

/* All members of k have come here and vote. The voters hold their victim until room_settle. */
struct vote room_vote(const struct communicator *k, MPI_Comm comm, const int64_t *facts)
{
    enum { VOTES, SIZES, STILL_FULL, SUMS };

    if (k->inter || facts[FACT_VICTIM] == 0)
        return (struct vote){0};
    struct communicator *const victim = victim_hold(facts[FACT_VICTIM]);
    const bool full = is_full();
    int64_t mine[SUMS] = {victim != NULL, victim != NULL ? victim->size : 0,
                          full && victim == NULL};
    int64_t all[SUMS] = {0};
    const bool told = pmpi.Allreduce(mine, all, SUMS, MPI_INT64_T, MPI_SUM, comm) == MPI_SUCCESS;
    /* Each voter adds the victim's size: all of its members have voted. */
    const bool gone = told && all[VOTES] > 0 && all[SIZES] == all[VOTES] * all[VOTES];

    if (gone && victim != NULL)
        remove_from_table(victim);
    return (struct vote){.victim = victim, .gone = gone, .room = gone && all[STILL_FULL] == 0};
}

void room_settle(const struct vote *v)
{
    if (v->victim != NULL)
        room_exit(v->victim);
}
