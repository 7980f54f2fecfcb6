/* The private communicator that switched calls run on, one for each of the user's that has them.
 *
 *      k's first switched call    members agree on k: facts, then whether there is room (room.c)
 *                                 made from our own parent, then agreed that all have it
 *      later calls                it is there, or is asked for again (2nd, 4th, 8th, ... call)
 *
 * Made in a blocking collective of all its members, at a point that all compute alike; never at
 * creation, and never in a Wait or Test. It descends from a communicator of our own, so that an
 * error in making it (MPICH has 2043 in all) never meets the program's handler, which stays where
 * it is; on the user's communicator there are only small reductions, which fail where its own call
 * would fail. Under Sessions alone there is no such parent: there it is split off the user's, while
 * no member has many communicators.
 *
 * What members decide by later (link, limits) is agreed here, on the communicator that uses it; so
 * is that all mean the same one. Threads that make inter-communicators of the same members at once,
 * with the same tag, may finish in different orders on different ranks, and then take one for the
 * other (comm.c): such a communicator is left to the library.
 */
#include <string.h>

#include "base/common.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "machine/clock.h"
#include "machine/machine.h"
#include "record/comm.h"
#include "record/hooks.h"
#include "record/making.h"
#include "run/device.h"
#include "run/duplicate.h"
#include "run/private.h"
#include "run/room.h"
#include "run/scratch.h"
#include "run/setting.h"
#include "run/valid.h"
#include "schedule/schedule.h"

enum { MANY_COMMUNICATORS = 500 /* of 2043 */, OFTEN = 64 };

static atomic_int refused[REFUSALS]; /* communicators, counted by their rank 0 */

int private_refused(enum refusal why)
{
    return atomic_load(&refused[why]);
}

/* ---- what members agree on, by small reductions on the user's communicator */

/* The maximum over all members; false: MPI failed, as it will in the call itself. */
static bool most_of_all(const struct communicator *k, MPI_Comm comm, int64_t *values, int count)
{
    int64_t there[FACTS], here[FACTS];

    if (pmpi.Allreduce(values, there, count, MPI_INT64_T, MPI_MAX, comm) != MPI_SUCCESS)
        return false;
    memcpy(values, there, sizeof *values * (size_t)count);
    if (!k->inter)
        return true;
    /* That was the other group's; now ours comes back. */
    if (pmpi.Allreduce(there, here, count, MPI_INT64_T, MPI_MAX, comm) != MPI_SUCCESS)
        return false;
    for (int i = 0; i < count; i++)
        values[i] = here[i] > there[i] ? here[i] : there[i];
    return true;
}

/* The least of a value over all members; 0: it can't be told. In an operation that keeps all
 * members together in any case. */
int64_t private_least(const struct communicator *k, MPI_Comm comm, int64_t value)
{
    int64_t most = -value;

    return most_of_all(k, comm, &most, 1) ? -most : 0;
}

/* Positive numbers are ordered as their bits are. */
static int64_t bits_of(double positive)
{
    int64_t bits;

    memcpy(&bits, &positive, sizeof bits);
    return bits;
}

static double number_of(int64_t bits)
{
    double number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

static bool facts_agree(struct communicator *k, MPI_Comm comm, int64_t *facts)
{
    const struct link *const l = &machine_link;

    facts[FACT_ALPHA] = bits_of(l->alpha);
    facts[FACT_BETA] = bits_of(l->beta);
    facts[FACT_PACE] = bits_of(l->pace);
    facts[FACT_BUFFER] = bits_of(l->buffer);
    facts[FACT_CANNOT_REDUCE] = !valid_asks();
    facts[FACT_MANY] = recorder.private == MPI_COMM_NULL && comm_living() > MANY_COMMUNICATORS;
    facts[FACT_DEVICE] = device_present();
    facts[FACT_NO_MEMORY] = memory_short() || !memory_is_left(0);
    facts[FACT_OBSTACLE] = (int64_t)setting_obstacle();
    facts[FACT_SETTINGS] = setting_facts();
    facts[FACT_MINUS_SETTINGS] = -facts[FACT_SETTINGS];
    facts[FACT_THREADS] = making_has_threads();
    facts[FACT_IDENTITY] = (int64_t)(k->identity >> 1);
    facts[FACT_MINUS_IDENTITY] = -facts[FACT_IDENTITY];
    room_facts(k, facts);
    if (!most_of_all(k, comm, facts, FACTS))
        return false;
    k->link = (struct link){number_of(facts[FACT_ALPHA]), number_of(facts[FACT_BETA]),
                            number_of(facts[FACT_PACE]), number_of(facts[FACT_BUFFER])};
    k->reduces = facts[FACT_CANNOT_REDUCE] == 0;
    k->obstacle = (uint8_t)facts[FACT_OBSTACLE];
    if (k->obstacle == OBSTACLE_NONE && facts[FACT_SETTINGS] != -facts[FACT_MINUS_SETTINGS])
        k->obstacle = OBSTACLE_INTERFACE; /* of some member's library */
    return true;
}

/* ---- making one */

/* The members in one order for both sides: an inter-communicator's first group first. */
static bool members_of(const struct communicator *k, MPI_Comm comm, MPI_Group *members)
{
    int own[1][3] = {{0, k->size - 1, 1}}, others[1][3] = {{0, k->remote_size - 1, 1}};
    MPI_Group all = MPI_GROUP_NULL, mine = MPI_GROUP_NULL, remote = MPI_GROUP_NULL;
    bool known;

    /* MPICH 5.0: a smaller Cartesian communicator has its parent's group. */
    known = pmpi.Comm_group(comm, &all) == MPI_SUCCESS &&
            pmpi.Group_range_incl(all, 1, own, &mine) == MPI_SUCCESS;
    if (all != MPI_GROUP_NULL)
        pmpi.Group_free(&all);
    if (!known || !k->inter) {
        *members = mine;
        return known;
    }
    known = pmpi.Comm_remote_group(comm, &all) == MPI_SUCCESS &&
            pmpi.Group_range_incl(all, 1, others, &remote) == MPI_SUCCESS &&
            pmpi.Group_union(k->first_group ? mine : remote, k->first_group ? remote : mine,
                             members) == MPI_SUCCESS;
    for (MPI_Group *g = (MPI_Group[]){all, mine, remote}, *end = g + 3; g < end; g++)
        if (*g != MPI_GROUP_NULL)
            pmpi.Group_free(g);
    return known;
}

/* The same processes by their ranks in our parent: MPICH 4.0 crashes on groups that are not of the
 * parent's own. `room` is for two numbers a member. */
static bool members_within(MPI_Comm parent, int count, int *room, MPI_Group *members)
{
    MPI_Group all = MPI_GROUP_NULL, found = MPI_GROUP_NULL;
    int *const there = room, *const here = room + count;

    for (int i = 0; i < count; i++)
        here[i] = i;
    const bool known =
        pmpi.Comm_group(parent, &all) == MPI_SUCCESS &&
        pmpi.Group_translate_ranks(*members, count, here, all, there) == MPI_SUCCESS &&
        pmpi.Group_incl(all, count, there, &found) == MPI_SUCCESS;

    if (all != MPI_GROUP_NULL)
        pmpi.Group_free(&all);
    pmpi.Group_free(members);
    *members = found;
    return known;
}

/* Tells apart what threads make at once with members in common. */
static int tag_of(const struct communicator *k)
{
    int *most = NULL, there = 0;

    if (pmpi.Comm_get_attr(recorder.private, MPI_TAG_UB, &most, &there) != MPI_SUCCESS || !there)
        return (int)(k->identity % 32767);
    return (int)(k->identity % (uint64_t)*most);
}

static MPI_Comm make(const struct communicator *k, MPI_Comm comm, int *room)
{
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    int error;

    if (recorder.private == MPI_COMM_NULL)
        error = pmpi.Comm_split(comm, 0, k->rank, &made);
    else if (members_of(k, comm, &members) &&
             members_within(recorder.private, k->size + k->remote_size, room, &members))
        error = pmpi.Comm_create_group(recorder.private, members, tag_of(k), &made);
    else
        return MPI_COMM_NULL;
    if (members != MPI_GROUP_NULL)
        pmpi.Group_free(&members);
    if (error != MPI_SUCCESS)
        return MPI_COMM_NULL;
    if (made != MPI_COMM_NULL)
        pmpi.Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}

/* The node of each member, for orders of a ring; called by all members of the new communicator.
 * `found` has room for two numbers of each. */
static void find_nodes(const struct communicator *k, uint64_t *found, int *nodes)
{
    const uint64_t mine = clock_node_hash();
    uint64_t *const different = found + k->size;
    int count = 0;

    pmpi.Allgather(&mine, sizeof mine, MPI_BYTE, found, sizeof mine, MPI_BYTE, k->private);
    for (int i = 0; i < k->size; i++) {
        nodes[i] = 0;
        while (nodes[i] < count && different[nodes[i]] != found[i])
            nodes[i]++;
        if (nodes[i] == count)
            different[count++] = found[i];
    }
}

static void nodes_forget(struct communicator *k)
{
    memory_free(k->nodes);
    k->nodes = NULL;
}

/* Makes it, and agrees that all members have. `room` is for two numbers a member. */
static bool make_agreed(struct communicator *k, MPI_Comm comm, uint64_t *room)
{
    MPI_Comm made = make(k, comm, (int *)room);
    int64_t missing = made == MPI_COMM_NULL;
    const int64_t begin = now_ns();

    if (!most_of_all(k, comm, &missing, 1) || missing != 0) {
        if (made != MPI_COMM_NULL)
            pmpi.Comm_free(&made);
        return false;
    }
    k->message_ns = 1 + (now_ns() - begin) / (1 + log2_ceiling(k->size + k->remote_size));
    k->private = made;
    if (!k->inter)
        find_nodes(k, room, k->nodes);
    room_take(k);
    return true;
}

/* The members use it no more: the user has freed his, or it makes room. */
static void forget(struct communicator *k)
{
    if (!k->private_tried)
        k->private = MPI_COMM_NULL;
    duplicate_forget(k);
    hooks.forgotten(k);
    k->private = MPI_COMM_NULL;
    nodes_forget(k);
    scratch_free(k);
}

/* All members of k have come here: do they have room now? */
static bool make_room(const struct communicator *k, MPI_Comm comm, const int64_t *facts)
{
    const struct vote v = room_vote(k, comm, facts);

    if (v.gone && v.victim != NULL) {
        forget(v.victim);
        v.victim->asked = v.victim->asked_turn = 0;
        v.victim->private_tried = false;
    }
    room_settle(&v);
    return v.room;
}

/* All members are here. The program's other threads make no communicator meanwhile. */
static enum refusal make_alone(struct communicator *k, MPI_Comm comm, uint64_t *room)
{
    const bool alone = making_alone();
    int64_t busy = !alone;
    enum refusal why = REFUSED_BUSY;

    if (!most_of_all(k, comm, &busy, 1))
        why = REFUSED_BY_MPI;
    else if (busy == 0)
        why = make_agreed(k, comm, room) ? REFUSED_NOT : REFUSED_BY_MPI;
    if (alone)
        making_over();
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
    if (facts[FACT_FULL] != 0 && !make_room(k, comm, facts))
        return REFUSED_FULL;
    if (facts[FACT_THREADS] != 0)
        return make_alone(k, comm, room);
    return make_agreed(k, comm, room) ? REFUSED_NOT : REFUSED_BY_MPI;
}

/* How it went; REFUSED_NOT: it is there. What is needed afterwards is had before members agree:
 * who lacks it is short of memory, and says so. */
static enum refusal try(struct communicator *k, MPI_Comm comm)
{
    uint64_t *const room = memory_get(2 * sizeof *room * (size_t)(k->size + k->remote_size));

    k->nodes = k->inter ? NULL : memory_get(sizeof *k->nodes * (size_t)k->size);
    const enum refusal why = agree_and_make(k, comm, room);

    memory_free(room);
    if (why != REFUSED_NOT)
        nodes_forget(k);
    return why;
}

/* Whether what was refused may be had later. */
bool private_may_come(const struct communicator *k)
{
    return k->why_not == REFUSED_FULL || k->why_not == REFUSED_BUSY;
}

/* Whether it is time to ask (again); all members count alike. */
static bool is_due(struct communicator *k)
{
    const uint32_t asked = ++k->asked;

    if (asked == 1)
        return true;
    if (k->why_not == REFUSED_BUSY && asked <= OFTEN) /* that passes soon */
        return true;
    return private_may_come(k) && is_power_of_two(asked);
}

static void count(const struct communicator *k, int change)
{
    if (k->why_not != REFUSED_NOT && comm_leads(k))
        atomic_fetch_add(&refused[k->why_not], change);
}

bool private_ready(struct communicator *k, MPI_Comm comm)
{
    if (k->private != MPI_COMM_NULL && k->private_tried) {
        room_use(k);
        return true;
    }
    if (!is_due(k))
        return false;
    const int64_t begin = now_ns();
    const bool first = !k->private_tried;

    k->private_tried = true;
    k->private = MPI_COMM_NULL;
    count(k, -1);
    k->why_not = (uint8_t)try(k, comm);
    count(k, 1);
    room_asked(k);
    if (first)
        k->private_ns = now_ns() - begin;
    return k->private != MPI_COMM_NULL;
}

/* The user's communicator has been freed by all its members: so is ours. */
void private_freed(struct communicator *k)
{
    room_leave(k);
    forget(k);
}
