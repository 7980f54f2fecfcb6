/* Pool of private communicators: a limit per process, and eviction of idle ones.
 *
 * Context ids belong to the program. MPICH has 2043, and every communicator that a program can
 * create without the recorder must remain possible. So a process has at most MOST private
 * communicators at a time. The members of a communicator k agree that one of them is full
 * (private_comm.c). The full member then proposes its least recently used private communicator j:
 *
 *   members of k    propose a victim j (facts of k) --> vote: members of j, if they have j idle
 *                   if all members of j take part and none is in a call on j: all free j
 *
 * A first request never evicts another communicator. A repeated request evicts only a communicator
 * that was not used since the previous request.
 *
 * Threads: the table is protected by recorder.lock. A call on j (`private_comm_pool_enter` to `private_comm_pool_exit`) and a
 * vote on j exclude each other. A call that starts during a vote waits for its end. The vote waits
 * only for members of k, which are all in the same call by then.
 */
#include <sched.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "executor/private_comm.h"
#include "record/communicator.h"

enum { MOST = 64, PLACES = 128 }; /* threads that ask concurrently may exceed MOST by a few */
enum { IDLE, BUSY, LEAVING };

static struct communicator *living[PLACES]; /* communicators with a private communicator */
static int count;
static uint32_t turns; /* clock of uses and requests of private communicators */

/* ---- use */

/* Begin a call that may use or free the private communicator. Only one thread calls it at a
 * time. */
static void enter(struct private_comm_use *use)
{
    for (;;) {
        int state = IDLE;

        if (atomic_compare_exchange_strong(&use->state, &state, BUSY) || state == BUSY)
            return;
        sched_yield();
    }
}

void private_comm_pool_enter(struct communicator *k)
{
    struct private_comm_use *const use = &comm_state(k)->use;

    if (atomic_load_explicit(&use->state, memory_order_relaxed) != BUSY)
        enter(use);
}

void private_comm_pool_exit(struct communicator *k)
{
    atomic_store_explicit(&comm_state(k)->use.state, IDLE, memory_order_release);
}

static uint32_t turn(void)
{
    return __atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
}

void private_comm_pool_use(struct communicator *k)
{
    comm_state(k)->use.used_turn = turn();
}

void private_comm_pool_asked(struct communicator *k)
{
    comm_state(k)->use.asked_turn = turn();
}

/* ---- the table */

void private_comm_pool_take(struct communicator *k)
{
    recorder_lock();
    if (count < PLACES) /* a communicator without an entry is never evicted */
        living[count++] = k;
    recorder_unlock();
    private_comm_pool_use(k);
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

void private_comm_pool_leave(struct communicator *k)
{
    enter(&comm_state(k)->use);
    remove_from_table(k);
}

/* ---- eviction */

static struct communicator *least_used(const struct communicator *k)
{
    const uint32_t asked = comm_state(k)->use.asked_turn;
    struct communicator *found = NULL;
    uint32_t least = 0;

    for (int i = 0; private_of(k)->asked > 1 && i < count; i++) {
        const uint32_t used = comm_state(living[i])->use.used_turn;

        if (!living[i]->inter && living[i]->size <= k->size && (int32_t)(used - asked) < 0 &&
            (found == NULL || (int32_t)(used - least) < 0)) {
            found = living[i];
            least = used;
        }
    }
    return found;
}

static int taken(void)
{
    int sum = count;

    for (int i = 0; i < count; i++)
        sum += comm_state(living[i])->algorithms.made;
    return sum;
}

/* Duplicates may use half of the pool. */
bool private_comm_pool_for_duplicate(void)
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

/* Identify the subject of a vote: j after the same number of started calls. If j is idle on all
 * members, all these calls have ended, so no message of the program is in transit. */
static int64_t name_of(const struct communicator *j)
{
    return (int64_t)(hash_mix(j->identity, j->next) >> 1);
}

/* Return if this member is full, and which communicator it would evict. */
void private_comm_pool_facts(const struct communicator *k, int64_t *facts)
{
    recorder_lock();
    const bool full = taken() >= MOST;
    const struct communicator *const victim = full ? least_used(k) : NULL;

    facts[FACT_FULL] = full;
    facts[FACT_VICTIM] = victim != NULL ? name_of(victim) : 0;
    recorder_unlock();
}

/* Lock this member's victim, so that no call can start on it, if no call uses it. */
static struct communicator *victim_hold(int64_t name)
{
    struct communicator *found = NULL;

    recorder_lock();
    for (int i = 0; i < count && found == NULL; i++) {
        int idle = IDLE;

        if (!atomic_compare_exchange_strong(&comm_state(living[i])->use.state, &idle, LEAVING))
            continue;
        if (name_of(living[i]) == name)
            found = living[i];
        else
            private_comm_pool_exit(living[i]);
    }
    recorder_unlock();
    return found;
}

/* Vote on the eviction. All members of k call it. Victims stay locked until private_comm_pool_settle. */
struct vote private_comm_pool_vote(const struct communicator *k, MPI_Comm comm,
                                   const int64_t *facts)
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
    /* each voter adds the victim's size, so all members of the victim have voted if this holds */
    const bool gone = told && all[VOTES] > 0 && all[SIZES] == all[VOTES] * all[VOTES];

    if (gone && victim != NULL)
        remove_from_table(victim);
    return (struct vote){.victim = victim, .gone = gone, .room = gone && all[STILL_FULL] == 0};
}

void private_comm_pool_settle(const struct vote *v)
{
    if (v->victim != NULL)
        private_comm_pool_exit(v->victim);
}
