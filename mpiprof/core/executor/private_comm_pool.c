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
#include "base/symbol_lookup.h"
#include "executor/private_comm.h"
#include "record/communicator.h"

enum {
    MOST_PRIVATE = 64,
    POOL_ENTRIES = 128
}; /* threads that ask concurrently may exceed MOST_PRIVATE by a few */
enum { IDLE, BUSY, LEAVING };

static struct communicator *pool[POOL_ENTRIES]; /* communicators with a private communicator */
static int pool_count;
static uint32_t use_clock; /* clock of uses and requests of private communicators */

/* ---- use */

/* Begin a call that may use or free the private communicator. Only one thread calls it at a
 * time. */
static void use_begin(struct private_comm_use *use)
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
        use_begin(use);
}

void private_comm_pool_exit(struct communicator *k)
{
    atomic_store_explicit(&comm_state(k)->use.state, IDLE, memory_order_release);
}

static uint32_t clock_next(void)
{
    return __atomic_add_fetch(&use_clock, 1, __ATOMIC_RELAXED);
}

void private_comm_pool_use(struct communicator *k)
{
    comm_state(k)->use.used_at = clock_next();
}

void private_comm_pool_note_request(struct communicator *k)
{
    comm_state(k)->use.requested_at = clock_next();
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

static void remove_from_table(const struct communicator *k)
{
    recorder_lock();
    for (int i = 0; i < pool_count; i++)
        if (pool[i] == k) {
            pool[i] = pool[--pool_count];
            break;
        }
    recorder_unlock();
}

void private_comm_pool_remove(struct communicator *k)
{
    use_begin(&comm_state(k)->use);
    remove_from_table(k);
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

static bool is_full(void)
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

/* Lock this member's victim, so that no call can start on it, if no call uses it. */
static struct communicator *victim_lock(int64_t name)
{
    struct communicator *found = NULL;

    recorder_lock();
    for (int i = 0; i < pool_count && found == NULL; i++) {
        int idle = IDLE;

        if (!atomic_compare_exchange_strong(&comm_state(pool[i])->use.state, &idle, LEAVING))
            continue;
        if (vote_subject(pool[i]) == name)
            found = pool[i];
        else
            private_comm_pool_exit(pool[i]);
    }
    recorder_unlock();
    return found;
}

/* Vote on the eviction. All members of k call it. Victims stay locked until
 * private_comm_pool_settle. */
struct vote private_comm_pool_vote(const struct communicator *k, MPI_Comm comm,
                                   const int64_t *facts)
{
    enum { VOTES, SIZES, STILL_FULL, SUMS };

    if (k->inter || facts[FACT_VICTIM] == 0)
        return (struct vote){0};
    struct communicator *const victim = victim_lock(facts[FACT_VICTIM]);
    const bool full = is_full();
    int64_t mine[SUMS] = {victim != NULL, victim != NULL ? victim->size : 0,
                          full && victim == NULL};
    int64_t all[SUMS] = {0};
    const bool told = pmpi.Allreduce(mine, all, SUMS, MPI_INT64_T, MPI_SUM, comm) == MPI_SUCCESS;
    /* each voter adds the victim's size, so all members of the victim have voted if this holds */
    const bool gone = told && all[VOTES] > 0 && all[SIZES] == all[VOTES] * all[VOTES];

    if (gone && victim != NULL)
        remove_from_table(victim);
    return (struct vote){
        .victim = victim, .evicted = gone, .has_space = gone && all[STILL_FULL] == 0};
}

void private_comm_pool_settle(const struct vote *v)
{
    if (v->victim != NULL)
        private_comm_pool_exit(v->victim);
}
