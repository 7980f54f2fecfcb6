/* Private communicators for calls that run on schedules, one per communicator of the program.
 *
 * A private communicator is created in a blocking collective of all members, at a point that all
 * compute identically: never with the program's communicator, and never in a Wait or Test. Its
 * parent is the recorder's communicator. So a failure (MPICH has 2043 communicators in all) never
 * reaches the program's error handler. Only small reductions run on the program's communicator;
 * they fail only if the program's call would fail. Under Sessions without MPI_Init no such parent
 * exists. Then it is split from the program's communicator, as long as no member has many
 * communicators.
 *
 * Before, the members agree on the facts of later decisions (link, limits), on room
 * (private_comm_pool.c), and on the identity of the communicator. Threads may concurrently create
 * inter-communicators of the same members with the same tag, so that ranks confuse them (comm.c).
 * Such a communicator stays with the library.
 */
#include <string.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "executor/execution.h"
#include "executor/library_algorithm.h"
#include "executor/private_comm.h"

enum { MANY_COMMUNICATORS = 500 /* of 2043 */, OFTEN = 64 };

atomic_int private_comm_refusals[REFUSALS];

/* ---- agreement, by small reductions on the program's communicator */

/* Compute the maxima of all members. Returns false if MPI failed, as in the program's call. */
static bool maxima_of_all(const struct communicator *k, MPI_Comm comm, int64_t *values, int count)
{
    int64_t there[FACTS], here[FACTS];

    if (pmpi.Allreduce(values, there, count, MPI_INT64_T, MPI_MAX, comm) != MPI_SUCCESS)
        return false;
    memcpy(values, there, sizeof *values * (size_t)count);
    if (!k->inter)
        return true;
    /* The result was that of the other group; the second reduction returns this group's. */
    if (pmpi.Allreduce(there, here, count, MPI_INT64_T, MPI_MAX, comm) != MPI_SUCCESS)
        return false;
    for (int i = 0; i < count; i++)
        values[i] = here[i] > there[i] ? here[i] : there[i];
    return true;
}

/* Return the minimum over all members, or 0 if unknown. Only in an operation that synchronises all
 * members. */
int64_t private_comm_minimum(const struct communicator *k, MPI_Comm comm, int64_t value)
{
    int64_t most = -value;

    return maxima_of_all(k, comm, &most, 1) ? -most : 0;
}

static bool facts_agree(struct communicator *k, MPI_Comm comm, int64_t *facts)
{
    struct private_comm *const p = private_of(k);

    /* Positive numbers have the order of their bits. */
    memcpy(&facts[FACT_LINK], &machine_link, sizeof machine_link);
    facts[FACT_CANNOT_REDUCE] = !argument_check_is_complete();
    facts[FACT_MANY] = recorder.private == MPI_COMM_NULL && comm_live_count > MANY_COMMUNICATORS;
    facts[FACT_DEVICE] = device_present();
    facts[FACT_NO_MEMORY] = memory_is_short() || !memory_is_left(0);
    facts[FACT_OBSTACLE] = (int64_t)mpi_t_algorithm_obstacle();
    facts[FACT_SETTINGS] = mpi_t_algorithm_facts();
    facts[FACT_MINUS_SETTINGS] = -facts[FACT_SETTINGS];
    facts[FACT_IDENTITY] = (int64_t)(k->identity >> 1);
    facts[FACT_MINUS_IDENTITY] = -facts[FACT_IDENTITY];
    private_comm_pool_facts(k, facts);
    if (!maxima_of_all(k, comm, facts, FACTS))
        return false;
    memcpy(&p->link, &facts[FACT_LINK], sizeof p->link);
    p->reduces = facts[FACT_CANNOT_REDUCE] == 0;
    p->obstacle = (uint8_t)facts[FACT_OBSTACLE];
    if (p->obstacle == OBSTACLE_NONE && facts[FACT_SETTINGS] != -facts[FACT_MINUS_SETTINGS])
        p->obstacle = OBSTACLE_INTERFACE; /* the libraries of the members differ */
    return true;
}

/* ---- creation */

/* Store the ranks of a group's members in another group. `own` is scratch memory. */
static bool ranks_translate(const struct communicator *k, MPI_Comm comm, bool remote, MPI_Group in,
                            int *own, int *ranks)
{
    /* In MPICH 5.0 a smaller Cartesian communicator has the group of its parent. */
    const int count = remote ? k->remote_size : k->size;
    MPI_Group group = MPI_GROUP_NULL;

    for (int i = 0; i < count; i++)
        own[i] = i;
    const bool known =
        (remote ? pmpi.Comm_remote_group : pmpi.Comm_group)(comm, &group) == MPI_SUCCESS &&
        pmpi.Group_translate_ranks(group, count, own, in, ranks) == MPI_SUCCESS;

    if (group != MPI_GROUP_NULL)
        pmpi.Group_free(&group);
    return known;
}

/* Return the members in an order that is equal on both sides: the first group first. They are a
 * subgroup of the parent's group, because MPICH 4.0 crashes on other groups. `room` holds two
 * numbers per member. */
static bool members_find(const struct communicator *k, MPI_Comm comm, int *room, MPI_Group *members)
{
    const int count = k->size + k->remote_size;
    const int own_first = k->inter && !k->first_group ? k->remote_size : 0;
    const int remote_first = k->first_group ? k->size : 0;
    int *const ranks = room, *const own = room + count;
    MPI_Group all = MPI_GROUP_NULL;
    const bool known =
        pmpi.Comm_group(recorder.private, &all) == MPI_SUCCESS &&
        ranks_translate(k, comm, false, all, own, ranks + own_first) &&
        (!k->inter || ranks_translate(k, comm, true, all, own, ranks + remote_first)) &&
        pmpi.Group_incl(all, count, ranks, members) == MPI_SUCCESS;

    if (all != MPI_GROUP_NULL)
        pmpi.Group_free(&all);
    return known;
}

/* Return a tag that distinguishes concurrent creations with common members. */
static int tag_of(const struct communicator *k)
{
    int *most = NULL, there = 0;

    if (pmpi.Comm_get_attr(recorder.private, MPI_TAG_UB, &most, &there) != MPI_SUCCESS || !there)
        return (int)(k->identity % 32767);
    return (int)(k->identity % (uint64_t)*most);
}

static MPI_Comm comm_create(const struct communicator *k, MPI_Comm comm, int *room)
{
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    int error = MPI_ERR_OTHER;

    if (recorder.private == MPI_COMM_NULL)
        error = pmpi.Comm_split(comm, 0, k->rank, &made);
    else if (members_find(k, comm, room, &members))
        error = pmpi.Comm_create_group(recorder.private, members, tag_of(k), &made);
    if (members != MPI_GROUP_NULL)
        pmpi.Group_free(&members);
    if (error != MPI_SUCCESS || made == MPI_COMM_NULL)
        return MPI_COMM_NULL;
    pmpi.Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}

/* Determine the node of each member, for the order of a ring. Collective. `found` holds two numbers
 * per member. */
static void find_nodes(const struct communicator *k, uint64_t *found, int *nodes)
{
    const uint64_t mine = clock_node_hash();
    uint64_t *const different = found + k->size;
    int count = 0;

    pmpi.Allgather(&mine, sizeof mine, MPI_BYTE, found, sizeof mine, MPI_BYTE, private_of(k)->comm);
    for (int i = 0; i < k->size; i++) {
        nodes[i] = 0;
        while (nodes[i] < count && different[nodes[i]] != found[i])
            nodes[i]++;
        if (nodes[i] == count)
            different[count++] = found[i];
    }
}

/* Create it, and agree that all members have it. `room` holds two numbers per member. */
static enum refusal comm_create_agreed(struct communicator *k, MPI_Comm comm, uint64_t *room)
{
    struct private_comm *const p = private_of(k);
    MPI_Comm made = comm_create(k, comm, (int *)room);
    int64_t missing = made == MPI_COMM_NULL;
    const int64_t begin = now_ns();

    if (!maxima_of_all(k, comm, &missing, 1) || missing != 0) {
        if (made != MPI_COMM_NULL)
            pmpi.Comm_free(&made);
        return REFUSED_BY_MPI;
    }
    p->message_ns = 1 + (now_ns() - begin) / (1 + log2_ceiling(k->size + k->remote_size));
    p->comm = made;
    if (!k->inter)
        find_nodes(k, room, p->nodes);
    private_comm_pool_add(k);
    return REFUSED_NOT;
}

/* The program has freed its communicator, or the pool evicts this one. */
static void private_comm_drop(struct communicator *k)
{
    struct private_comm *const p = private_of(k);

    if (!p->requested)
        p->comm = MPI_COMM_NULL;
    algorithm_comm_forget(k);
    hooks.forgotten(k);
    p->comm = MPI_COMM_NULL;
    memory_free(p->nodes);
    p->nodes = NULL;
    scratch_free(k);
}

/* Vote on the eviction of another private communicator (private_comm_pool.c). All members of k call
 * it. Returns true if they all have room for another communicator afterwards. */
static bool pool_make_space(const struct communicator *k, MPI_Comm comm, const int64_t *facts)
{
    enum { VOTES, SIZES, STILL_FULL, SUMS };

    if (k->inter || facts[FACT_VICTIM] == 0)
        return false;
    struct communicator *const victim = private_comm_pool_lock(facts[FACT_VICTIM]);
    const int64_t mine[SUMS] = {victim != NULL, victim != NULL ? victim->size : 0,
                                victim == NULL && private_comm_pool_is_full()};
    int64_t all[SUMS] = {0};
    const bool reduced = pmpi.Allreduce(mine, all, SUMS, MPI_INT64_T, MPI_SUM, comm) == MPI_SUCCESS;
    /* each voter adds the victim's size, so all members of the victim have voted if this holds */
    const bool evicted = reduced && all[VOTES] > 0 && all[SIZES] == all[VOTES] * all[VOTES];

    if (evicted && victim != NULL) {
        private_comm_pool_remove(victim);
        private_comm_drop(victim);
        private_of(victim)->requests = 0;
        private_of(victim)->requested = false;
    }
    if (victim != NULL)
        private_comm_pool_exit(victim);
    return evicted && all[STILL_FULL] == 0;
}

/* Create it while no other thread of the program creates a communicator, and no MPI_Comm_idup is
 * pending that not all members have called. Collective. */
static enum refusal comm_create_exclusive(struct communicator *k, MPI_Comm comm, uint64_t *room)
{
    enum { OTHERS, PENDING, CALLED, MINUS_CALLED, FACTS_OF_CREATIONS };

    const bool has_threads = comm_create_lock_has_threads();
    const bool alone = !has_threads || comm_create_lock_try_exclusive();
    const int64_t called = (int64_t)(comm_create_lock_sum_idups() >> 1);
    int64_t facts[FACTS_OF_CREATIONS] = {!alone, comm_create_lock_has_pending(), called, -called};
    enum refusal why = REFUSED_BUSY;

    if (!maxima_of_all(k, comm, facts, FACTS_OF_CREATIONS))
        why = REFUSED_BY_MPI;
    else if (facts[OTHERS] == 0 && (facts[PENDING] == 0 || facts[CALLED] == -facts[MINUS_CALLED]))
        why = comm_create_agreed(k, comm, room);
    if (has_threads && alone)
        comm_create_lock_end_exclusive();
    return why;
}

static enum refusal agree_and_make(struct communicator *k, MPI_Comm comm, uint64_t *room)
{
    int64_t facts[FACTS] = {0};

    if (!facts_agree(k, comm, facts) || facts[FACT_MANY] != 0)
        return REFUSED_BY_MPI;
    if (facts[FACT_IDENTITY] != -facts[FACT_MINUS_IDENTITY])
        return REFUSED_UNSURE;
    if (facts[FACT_NO_MEMORY] != 0)
        return REFUSED_MEMORY;
    if (facts[FACT_DEVICE] != 0)
        return REFUSED_DEVICE;
    if (facts[FACT_FULL] != 0 && !pool_make_space(k, comm, facts))
        return REFUSED_FULL;
    return comm_create_exclusive(k, comm, room);
}

/* Try to create it. Returns REFUSED_NOT on success. All memory is allocated before the members
 * agree, so that a member without memory can report it. */
static enum refusal request_private(struct communicator *k, MPI_Comm comm)
{
    uint64_t *const room = memory_allocate(2 * sizeof *room * (size_t)(k->size + k->remote_size));
    struct private_comm *const p = private_of(k);

    p->nodes = k->inter ? NULL : memory_allocate(sizeof *p->nodes * (size_t)k->size);
    const enum refusal why = agree_and_make(k, comm, room);

    memory_free(room);
    if (why != REFUSED_NOT) {
        memory_free(p->nodes);
        p->nodes = NULL;
    }
    return why;
}

bool private_comm_is_postponed(const struct communicator *k)
{
    const uint8_t why_not = private_of(k)->refusal;

    return why_not == REFUSED_FULL || why_not == REFUSED_BUSY;
}

/* Return true if it is time to request it (again). All members count equally. */
static bool is_due(struct communicator *k)
{
    const uint32_t asked = ++private_of(k)->requests;

    if (asked == 1)
        return true;
    if (private_of(k)->refusal == REFUSED_BUSY && asked <= OFTEN) /* usually free again soon */
        return true;
    return private_comm_is_postponed(k) && is_power_of_two(asked);
}

static void refusal_count(const struct communicator *k, int change)
{
    const uint8_t why_not = private_of(k)->refusal;

    if (why_not != REFUSED_NOT && comm_is_leader(k))
        atomic_fetch_add(&private_comm_refusals[why_not], change);
}

bool private_comm_ready(struct communicator *k, MPI_Comm comm)
{
    struct private_comm *const p = private_of(k);

    if (private_comm_exists(k)) {
        private_comm_pool_use(k);
        return true;
    }
    if (!is_due(k))
        return false;
    const int64_t begin = now_ns();
    const bool first = !p->requested;

    p->requested = true;
    p->comm = MPI_COMM_NULL;
    refusal_count(k, -1);
    p->refusal = (uint8_t)request_private(k, comm);
    refusal_count(k, 1);
    private_comm_pool_note_request(k);
    if (first)
        p->creation_ns = now_ns() - begin;
    return p->comm != MPI_COMM_NULL;
}

/* All members have freed the program's communicator. */
void private_comm_freed(struct communicator *k)
{
    private_comm_pool_enter(k);
    private_comm_pool_remove(k);
    private_comm_drop(k);
}
