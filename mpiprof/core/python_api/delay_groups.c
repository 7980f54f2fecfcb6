/* Waits in collectives and for messages in one order: by group, the latest group first.
 *
 * mpiprof/account/delay_graph.py describes the groups. It has no MPI and no state. Caller:
 * mpiprof/account/delay_library.py, from any thread. The caller owns all arrays. */
#include "base/base.h"

/* The fields have the names and the order of delay_library.JOINED. */
struct joined {
    int64_t collective, members, messages; /* numbers of groups, their members, other groups */
    const int64_t *order; /* of all groups: first those of collectives, then the messages */
    const int64_t *awaited, *until_ns, *callsite, *communicator; /* of each group */
    const uint8_t *is_meeting, *is_counted;
    const int64_t *group, *rank, *begin_ns, *end_ns; /* of each member, in any order */
    const int64_t *message_awaited, *message_until_ns, *message_rank, *message_begin_ns;
    /* Results of each group in order. joined_callsite, met: -1 for messages. */
    int64_t *joined_awaited, *joined_until_ns, *joined_callsite, *met;
    uint8_t *meets, *counted;
    int64_t *first; /* of each group: its first member; and the number of members */
    int64_t *joined_rank, *joined_begin_ns, *joined_end_ns; /* of each member */
    int64_t *next; /* room for each group of collectives: 0 */
};

static void add_collective(const struct joined *j, int64_t group, int64_t from)
{
    j->joined_awaited[group] = j->awaited[from];
    j->joined_until_ns[group] = j->until_ns[from];
    j->joined_callsite[group] = j->callsite[from];
    j->met[group] = j->is_meeting[from] ? j->communicator[from] : -1;
    j->meets[group] = j->is_meeting[from];
    j->counted[group] = j->is_counted[from];
}

static void add_message(const struct joined *j, int64_t group, int64_t from)
{
    const int64_t member = j->first[group];

    j->joined_awaited[group] = j->message_awaited[from];
    j->joined_until_ns[group] = j->joined_end_ns[member] = j->message_until_ns[from];
    j->joined_callsite[group] = j->met[group] = -1;
    j->meets[group] = false;
    j->counted[group] = true;
    j->joined_rank[member] = j->message_rank[from];
    j->joined_begin_ns[member] = j->message_begin_ns[from];
}

/* Writes the groups and members in order. */
PUBLIC void delay_groups_join(const struct joined *j)
{
    int64_t *const next = j->next; /* number of members, then the next of them */
    int64_t member = 0;

    for (int64_t m = 0; m < j->members; m++)
        next[j->group[m]]++;
    for (int64_t group = 0; group < j->collective + j->messages; group++) {
        const int64_t from = j->order[group];

        j->first[group] = member;
        if (from < j->collective) {
            const int64_t count = next[from];

            add_collective(j, group, from);
            next[from] = member;
            member += count;
        } else {
            add_message(j, group, from - j->collective);
            member++;
        }
    }
    j->first[j->collective + j->messages] = member;
    for (int64_t m = 0; m < j->members; m++) {
        const int64_t at = next[j->group[m]]++;

        j->joined_rank[at] = j->rank[m];
        j->joined_begin_ns[at] = j->begin_ns[m];
        j->joined_end_ns[at] = j->end_ns[m];
    }
}

/* Moves the begin of each window back to the first wait of its group, if that is earlier. */
PUBLIC void delay_groups_limit(int64_t groups, const int64_t *first, const int64_t *begin_ns,
                               int64_t *since_ns)
{
    for (int64_t group = 0; group < groups; group++)
        for (int64_t m = first[group]; m < first[group + 1]; m++)
            if (begin_ns[m] < since_ns[group])
                since_ns[group] = begin_ns[m];
}
