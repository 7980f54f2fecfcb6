/* Pool of private communicators: a limit per process, and eviction of idle ones.
 *
 * Context ids belong to the program. MPICH has 2043, and every communicator that a program can
 * create without the recorder must remain possible. So a process has at most MOST_PRIVATE private
 * communicators at a time. The members of a communicator k agree that one of them is full
 * (private_comm.c). The full member then proposes its least recently used private communicator j:
 *
 *   members of k    propose a victim j (facts of k) --> vote: members of j, if they have j idle
 *                   if all members of j take part and none is in a call on j: all free j
 *
 * A first request never evicts another communicator. A repeated request evicts only a communicator
 * that was not used since the previous request.
 *
 * Threads: the table is protected by recorder.lock. A call on j (`private_comm_pool_enter` to
 * `private_comm_pool_exit`) and a vote on j exclude each other. A call that starts during a vote
 * waits for its end. The vote waits only for members of k, which are all in the same call by then.
 */
#include <sched.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/private_comm.h"

enum { MOST_PRIVATE = 64 };
enum { POOL_ENTRIES = 128 }; /* threads that ask concurrently may exceed MOST_PRIVATE by a few */
enum { IDLE, BUSY, LEAVING };

static struct communicator *pool[POOL_ENTRIES]; /* communicators with a private communicator */
static int pool_count;
static _Atomic uint32_t use_clock; /* clock of uses and requests of private communicators */

/* ---- use */

/* Begin a call that may use or free the private communicator. One thread calls it at a time. */
void private_comm_pool_enter(struct communicator *k)
{
    atomic_int *const state = &comm_state(k)->use.state;
    int idle = IDLE;

    while (atomic_load_explicit(state, memory_order_relaxed) != BUSY &&
           !atomic_compare_exchange_strong(state, &idle, BUSY)) {
        idle = IDLE;
        sched_yield();
    }
}

void private_comm_pool_exit(struct communicator *k)
{
    atomic_store_explicit(&comm_state(k)->use.state, IDLE, memory_order_release);
}

void private_comm_pool_use(struct communicator *k)
{
    comm_state(k)->use.used_at = ++use_clock;
}

void private_comm_pool_note_request(struct communicator *k)
{
    comm_state(k)->use.requested_at = ++use_clock;
}

/* ---- the table */

void private_comm_pool_add(struct communicator *k)
{
    recorder_lock();
    if (pool_count < POOL_ENTRIES) /* a communicator without an entry is never evicted */
        pool[pool_count++] = k;
    recorder_unlock();
    private_comm_pool_use(k);
}

void private_comm_pool_remove(const struct communicator *k)
{
    recorder_lock();
    for (int i = 0; i < pool_count; i++)
        if (pool[i] == k) {
            pool[i] = pool[--pool_count];
            break;
        }
    recorder_unlock();
}

/* ---- eviction */

static struct communicator *least_used(const struct communicator *k)
{
    const uint32_t asked = comm_state(k)->use.requested_at;
    struct communicator *found = NULL;
    uint32_t least = 0;

    for (int i = 0; private_of(k)->requests > 1 && i < pool_count; i++) {
        const uint32_t used = comm_state(pool[i])->use.used_at;

        if (!pool[i]->inter && pool[i]->size <= k->size && (int32_t)(used - asked) < 0 &&
            (found == NULL || (int32_t)(used - least) < 0)) {
            found = pool[i];
            least = used;
        }
    }
    return found;
}

static int comm_count(void)
{
    int sum = pool_count;

    for (int i = 0; i < pool_count; i++)
        sum += comm_state(pool[i])->algorithms.live_count;
    return sum;
}

/* Duplicates may use half of the pool. */
bool private_comm_pool_allows_duplicate(void)
{
    recorder_lock();
    const int all = comm_count();
    const bool room = all < MOST_PRIVATE && all - pool_count < MOST_PRIVATE / 2;

    recorder_unlock();
    return room;
}

bool private_comm_pool_is_full(void)
{
    recorder_lock();
    const bool full = comm_count() >= MOST_PRIVATE;

    recorder_unlock();
    return full;
}

/* Identify the subject of a vote: j after the same number of started calls. If j is idle on all
 * members, all these calls have ended, so no message of the program is in transit. */
static int64_t vote_subject(const struct communicator *j)
{
    return (int64_t)(hash_mix(j->identity, j->next) >> 1);
}

/* Return if this member is full, and which communicator it would evict. */
void private_comm_pool_facts(const struct communicator *k, int64_t *facts)
{
    recorder_lock();
    const bool full = comm_count() >= MOST_PRIVATE;
    const struct communicator *const victim = full ? least_used(k) : NULL;

    facts[FACT_FULL] = full;
    facts[FACT_VICTIM] = victim != NULL ? vote_subject(victim) : 0;
    recorder_unlock();
}

/* Lock this member's victim, so that no call can start on it until private_comm_pool_exit. Returns
 * NULL if a call uses the victim, or if this process is not a member. */
struct communicator *private_comm_pool_lock(int64_t subject)
{
    struct communicator *victim = NULL;

    recorder_lock();
    for (int i = 0; i < pool_count && victim == NULL; i++) {
        int idle = IDLE;

        if (!atomic_compare_exchange_strong(&comm_state(pool[i])->use.state, &idle, LEAVING))
            continue;
        if (vote_subject(pool[i]) == subject)
            victim = pool[i];
        else
            private_comm_pool_exit(pool[i]);
    }
    recorder_unlock();
    return victim;
}
