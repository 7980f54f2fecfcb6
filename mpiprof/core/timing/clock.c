/* Clocks: one per node, and the offsets between the nodes' clocks.
 *
 *      node 0   1   2   3   4   5 ...       round 0: 1 asks 0
 *           |<--|   |   |                   round 1: 2 asks 0, 3 asks 1
 *           |<------|   |                   round 2: 4 .. 7 ask 0 .. 3: O(log nodes) rounds
 *           |   |<------|
 *
 * A node is identified by a boot id and a time namespace, not by a host name. The first node is
 * that of rank 0. A leader asks another leader for the time TRIES times and uses the answer with
 * the shortest round trip. The other clock was read within this round trip, so half of it bounds
 * the error. The leaders store the answers in their tables, and the analysis composes them; no
 * collection is needed.
 *
 * The list of nodes is collected along a tree and distributed to all ranks. A rank stores only the
 * nodes that it needs, at most log2(nodes) others.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/communication.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "timing/timing.h"
#include "tracefile/tracefile.h"

enum { TRIES = 20, TAG = 19937, STALE_NS = 20000 };

struct node {
    uint64_t name;
    int64_t leader, second; /* first two ranks of the node; second is -1 if it has only one */
    int64_t world_rank;     /* of the leader */
};
struct offset {
    int64_t ahead_ns, error_ns, at_ns; /* at_ns is 0 before the first comparison */
    double rate, rate_error;
};
struct row { /* offset of one node */
    int64_t node;
    struct offset offset;
};
enum { ROUNDS = 31, ROWS = 256 };
/* The nodes with which this node's leader compares clocks, by round. The later node of a pair asks.
 * None on the other ranks. */
static struct partner {
    struct node node;
    bool is_asked;
} partners[ROUNDS];
static int partner_count;
static bool is_leader; /* in recorder.private */
static int my_node = -1;
struct clock_layout clock_layout = {.neighbour = -1, .second_leader = -1};

static size_t read_file(const char *path, char *bytes, size_t room)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = 0;

    while (descriptor >= 0 && (length = read(descriptor, bytes, room - 1)) < 0 && errno == EINTR)
        ;

    if (descriptor >= 0)
        close(descriptor);
    bytes[length > 0 ? length : 0] = '\0';
    bytes[strcspn(bytes, "\n")] = '\0';
    return strlen(bytes);
}

/* Return the name of this node's clock. MPIPROF_NODE replaces it in tests of several nodes. */
const char *clock_node(void)
{
    static char name[200];
    const char *const given = recorder.options.node;

    if (name[0] != '\0')
        return name;
    if (given != NULL) {
        strncpy(name, given, sizeof name - 1);
        return name;
    }
    const size_t length = read_file("/proc/sys/kernel/random/boot_id", name, 100);
    const ssize_t more = readlink("/proc/self/ns/time", name + length, sizeof name - length - 1);

    name[length + (more > 0 ? (size_t)more : 0)] = '\0';
    return name;
}

uint64_t clock_node_hash(void)
{
    return hash_text(1, clock_node(), -1);
}

/* Remove the nodes of an appended list that were already in the list. */
static void join_nodes(struct text *all, size_t earlier)
{
    struct node *const list = (struct node *)(void *)all->bytes;
    const size_t end = all->length / sizeof *list;
    size_t count = 0;
    struct map seen = {0};

    (void)earlier;
    recorder_lock();
    for (size_t i = 0; i < end; i++) {
        struct node *const known = map_get(&seen, list[i].name);

        if (known != NULL) {
            known->second = known->second < 0 ? list[i].leader : known->second;
            continue;
        }
        list[count] = list[i];
        all->cut |= !map_put(&seen, list[i].name, &list[count]);
        count++;
    }
    map_free(&seen);
    recorder_unlock();
    all->length = count * sizeof *list;
}

/* Return the list of all nodes on all ranks, or NULL if a rank has no memory for it. */
static struct node *list_nodes(MPI_Comm comm, int rank)
{
    const struct node mine = {clock_node_hash(), rank, -1, recorder.rank};
    struct text found = {0};
    struct node *list = NULL;
    int64_t count = -1, lacks, any = 1;

    text_bytes(&found, (const char *)&mine, sizeof mine);
    tree_collect(&found, join_nodes, comm);
    if (rank == 0 && !found.cut)
        count = (int64_t)(found.length / sizeof mine);
    tree_broadcast(&count, sizeof count, false, comm);
    if (count > 0 && count <= INT_MAX / (int64_t)sizeof mine)
        list = memory_allocate((size_t)count * sizeof mine);
    lacks = any = list == NULL;
    if (pmpi.Allreduce != NULL)
        pmpi.Allreduce(&lacks, &any, 1, MPI_INT64_T, MPI_MAX, comm);
    if (any == 0) {
        if (rank == 0)
            memcpy(list, found.bytes, (size_t)count * sizeof mine);
        tree_broadcast(list, (int)((size_t)count * sizeof mine), false, comm);
        clock_layout.nodes = (int)count;
    } else {
        memory_free(list);
        list = NULL;
    }
    text_free(&found);
    return list;
}

static void find_partners(const struct node *list)
{
    for (int step = 1; partner_count < ROUNDS && step < clock_layout.nodes; step *= 2)
        if (my_node < step && step < clock_layout.nodes - my_node)
            partners[partner_count++] = (struct partner){list[my_node + step], .is_asked = false};
        else if (my_node >= step && my_node - step < step)
            partners[partner_count++] = (struct partner){list[my_node - step], .is_asked = true};
}

/* Determine which ranks share a clock. Every member of recorder.private calls it. Returns false if
 * a rank has no memory. */
bool clock_nodes(MPI_Comm comm)
{
    int rank = 0;

    pmpi.Comm_rank(comm, &rank);
    struct node *const list = list_nodes(comm, rank);

    if (list == NULL)
        return false;
    while (++my_node < clock_layout.nodes && list[my_node].name != clock_node_hash())
        ;
    clock_layout.neighbour = (int)list[0].second;
    clock_layout.second_leader = clock_layout.nodes > 1 ? (int)list[1].leader : -1;
    is_leader = list[my_node].leader == rank;
    if (is_leader)
        find_partners(list);
    memory_free(list);
    return true;
}

/* Offset of this node's clock from the first node's, its error, and its rate. Two quartz clocks
 * differ by at most `drift`; two comparisons determine their actual rate. Valid on leaders, and
 * after clock_distribute_offsets on all ranks. */
static const struct offset unknown_offset;
/* replaced, never modified, because threads read it */
static const struct offset *_Atomic known = &unknown_offset;
static int64_t origin;
static const double drift = 1e-5, wander = 2e-7;

/* A message of a comparison; returns false if the partner does not answer by the deadline. `values`
 * is static: a partner that comes later may still write there. */
static bool comparison_message(bool sends, int64_t *values, int count, int leader, int64_t deadline)
{
    const int bytes = count * (int)sizeof *values;
    MPI_Request request;
    const int error =
        sends ? pmpi.Isend(values, bytes, MPI_BYTE, leader, TAG, recorder.private, &request)
              : pmpi.Irecv(values, bytes, MPI_BYTE, leader, TAG, recorder.private, &request);

    if (error != MPI_SUCCESS)
        return false;
    if (deadline == INT64_MAX)
        return pmpi.Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    if (wait_until(&request, deadline))
        return true;
    wait_cancel(&request);
    return false;
}

static bool comparison_answer(int leader, int64_t deadline)
{
    for (int i = 0; i < TRIES; i++) {
        static int64_t asked, t[3];

        if (!comparison_message(false, &asked, 1, leader, deadline))
            return false;
        t[0] = now_ns();
        t[1] = clock_to_common(t[0]) + origin - t[0];
        t[2] = clock_error_bound();
        if (!comparison_message(true, t, 3, leader, deadline))
            return false;
    }
    return true;
}

/* Old offsets, a few per run, stay allocated, because a thread may still read them. */
static void offset_publish(struct offset now)
{
    struct offset *const made = memory_allocate(sizeof *made);

    if (made == NULL)
        return;
    *made = now;
    atomic_store(&known, made);
}

/* Update the offset after a comparison at time `at` of this node's clock. */
static void offset_update(int64_t at, int64_t ahead, int64_t error)
{
    const struct offset before = *atomic_load(&known);
    struct offset now = {ahead, error, at, before.rate, before.rate_error};

    if (before.at_ns == 0)
        now.rate_error = drift;
    if (before.at_ns > 0 && at > before.at_ns) {
        const double span = (double)(at - before.at_ns);
        const double rate_error = (double)(error + before.error_ns) / span + wander;

        if (rate_error < drift) { /* otherwise the time span is too short for a rate */
            now.rate = (double)(ahead - before.ahead_ns) / span;
            now.rate_error = rate_error;
        }
    }
    offset_publish(now);
}

static bool comparison_start(const struct node *of, const char *when, int64_t deadline)
{
    int64_t best = INT64_MAX, offset = 0, at = 0, above = 0, bound = 0;
    const int leader = (int)of->leader;
    struct text t = {0};

    for (int i = 0; i < TRIES; i++) {
        static int64_t question, theirs[3];
        const int64_t before = now_ns();

        if (!comparison_message(true, &question, 1, leader, deadline) ||
            !comparison_message(false, theirs, 3, leader, deadline))
            return false;
        const int64_t after = now_ns();

        if (after - before < best) {
            best = after - before;
            at = before + best / 2;
            offset = theirs[0] - at;
            above = theirs[1];
            bound = theirs[2];
        }
    }
    offset_update(at, offset + above, best / 2 + 1 + bound);
    file_set_clock_ahead(offset + above);
    text_add(&t, "{\"rank\": %d, \"clock\": {\"node\": ", recorder.rank);
    text_json(&t, clock_node(), -1);
    text_add(&t, ", \"reference\": %lld, \"at_ns\": %lld, \"offset_ns\": %lld, ",
             (long long)of->world_rank, (long long)at, (long long)offset);
    text_add(&t, "\"error_ns\": %lld, \"when\": \"%s\"}}\n", (long long)(best / 2 + 1), when);
    file_write_line(&t);
    text_free(&t);
    return true;
}

/* Every member of recorder.private calls it; only node leaders of several nodes communicate. With a
 * deadline, a leader whose partner does not come keeps the clocks as they were compared before. */
void clock_synchronise(const char *when, int64_t deadline)
{
    bool there = true;

    for (int i = 0; there && i < partner_count; i++)
        there = partners[i].is_asked ? comparison_start(&partners[i].node, when, deadline)
                                     : comparison_answer((int)partners[i].node.leader, deadline);
    if (!there)
        file_write_note("clocks were not compared at %s, because another node did not answer",
                        when);
}

/* Distribute the leaders' offsets in batches of nodes, so that no rank needs memory for all. */
static void share_offsets(void)
{
    const struct row mine = {my_node, *atomic_load(&known)};
    static SPARSE struct row some[ROWS]; /* static, because the thread's stack may be small */
    struct text rows = {0};
    int64_t count;
    int rank = -1;

    pmpi.Comm_rank(recorder.private, &rank);
    if (is_leader)
        text_bytes(&rows, (const char *)&mine, sizeof mine);
    tree_collect(&rows, NULL, recorder.private);
    count = (int64_t)(rows.length / sizeof mine);
    tree_broadcast(&count, sizeof count, false, recorder.private);
    for (int64_t at = 0; at < count; at += ROWS) {
        const int part = (int)(count - at < ROWS ? count - at : ROWS);

        if (rank == 0)
            memcpy(some, rows.bytes + (size_t)at * sizeof mine, (size_t)part * sizeof mine);
        tree_broadcast(some, part * (int)sizeof mine, false, recorder.private);
        for (int i = 0; i < part; i++)
            if (some[i].node == my_node)
                offset_publish(some[i].offset);
    }
    text_free(&rows);
}

/* Distribute the leaders' offsets after a comparison. Every member of recorder.private calls it. */
void clock_distribute_offsets(void)
{
    if (clock_layout.nodes > 1)
        share_offsets();
    if (origin == 0)
        origin = now_ns();
    tree_broadcast(&origin, sizeof origin, false, recorder.private);
}

/* Convert a time of this node's clock to the first node's clock, relative to the common origin. */
int64_t clock_to_common(int64_t ns)
{
    const struct offset *const o = atomic_load(&known);
    const double since = o->at_ns > 0 ? (double)(ns - o->at_ns) : 0;

    return ns + o->ahead_ns + (int64_t)(o->rate * since) - origin;
}

/* Return the current bound on the error in ns. */
int64_t clock_error_bound(void)
{
    const struct offset *const o = atomic_load(&known);

    if (o->at_ns == 0)
        return 0;
    return o->error_ns + (int64_t)(o->rate_error * (double)(now_ns() - o->at_ns));
}

/* Return true if a new comparison would reduce the error. */
bool clock_is_stale(void)
{
    const struct offset *const o = atomic_load(&known);

    return o->at_ns > 0 && clock_error_bound() > STALE_NS && clock_error_bound() > 2 * o->error_ns;
}
