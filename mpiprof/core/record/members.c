/* Members of a communicator, as world ranks for the tables. */
#include <limits.h>

#include "base/pmpi.h"
#include "base/recorder.h"
#include "record/communicator.h"

/* Return all ranks without a query, because Open MPI's translation of ranks takes O(p^2). */
struct members members_all(int size)
{
    struct members m = {.count = size, .ranks = memory_allocate(sizeof *m.ranks * (size_t)size)};

    m.foreign = m.ranks == NULL;
    for (int i = 0; !m.foreign && i < size; i++)
        m.ranks[i] = i;
    return m;
}

bool members_are_all(const struct members *m)
{
    bool all = !m->foreign && m->count == recorder.size;

    for (int i = 0; all && i < m->count; i++)
        all = m->ranks[i] == i;
    return all;
}

/* Return the first `most` members of a group. */
static struct members members_first(MPI_Group group, int most)
{
    struct members m = {0};
    int *own;

    if (pmpi.Group_size(group, &m.count) != MPI_SUCCESS)
        return (struct members){.foreign = true};
    if (m.count > most)
        m.count = most;
    own = memory_allocate(sizeof *own * (size_t)(m.count + 1));
    m.ranks = memory_allocate(sizeof *own * (size_t)(m.count + 1));
    m.foreign = own == NULL || m.ranks == NULL || recorder.world == MPI_GROUP_NULL;
    for (int i = 0; !m.foreign && i < m.count; i++)
        own[i] = i;
    if (!m.foreign && m.count > 0)
        m.foreign =
            pmpi.Group_translate_ranks(group, m.count, own, recorder.world, m.ranks) != MPI_SUCCESS;
    for (int i = 0; !m.foreign && i < m.count; i++)
        m.foreign = m.ranks[i] == MPI_UNDEFINED;
    memory_free(own);
    return m;
}

struct members members_of(MPI_Comm comm, bool remote, int size)
{
    MPI_Group group;

    if ((remote ? pmpi.Comm_remote_group : pmpi.Comm_group)(comm, &group) != MPI_SUCCESS)
        return (struct members){.foreign = true};
    /* in MPICH 5.0, a smaller Cartesian communicator has its parent's group */
    const struct members m = members_first(group, size);

    pmpi.Group_free(&group);
    return m;
}

struct members members_of_group(MPI_Group group)
{
    return members_first(group, INT_MAX);
}

uint64_t members_hash(const struct members *m)
{
    uint64_t h = (uint64_t)m->count;

    for (int i = 0; i < m->count; i++)
        h = hash_mix(h, (uint64_t)m->ranks[i]);
    return h;
}

int members_lowest(const struct members *m)
{
    int rank = INT_MAX;

    for (int i = 0; i < m->count; i++)
        rank = m->ranks[i] < rank ? m->ranks[i] : rank;
    return rank;
}

static int run_last(const struct members *m, int from, int *step)
{
    int last = from;

    *step = from + 1 < m->count ? m->ranks[from + 1] - m->ranks[from] : 1;
    while (last + 1 < m->count && m->ranks[last + 1] - m->ranks[last] == *step)
        last++;
    return last;
}

static bool are_few_runs(const struct members *m)
{
    int runs = 0, step = 0;

    for (int i = 0; i < m->count && runs <= recorder.options.runs; runs++)
        i = run_last(m, i, &step) + 1;
    return runs <= recorder.options.runs;
}

/* Write runs of equal steps: [[first, last, step], ...]. */
void members_write_runs(struct text *t, const struct members *m)
{
    text_add(t, "[");
    for (int i = 0; i < m->count;) {
        int step = 1;
        const int last = run_last(m, i, &step);

        text_add(t, "%s[%d, %d, %d]", i > 0 ? ", " : "", m->ranks[i], m->ranks[last], step);
        i = last + 1;
    }
    text_add(t, "]");
}

/* Write the members as runs. If irregular members have too many runs, only the first member writes
 * them; the others write that member's rank. */
void members_write(struct text *t, const struct members *m)
{
    if (m->foreign)
        text_add(t, "null");
    else if (m->ranks[0] != recorder.rank && !are_few_runs(m))
        text_add(t, "%d", m->ranks[0]);
    else
        members_write_runs(t, m);
}
