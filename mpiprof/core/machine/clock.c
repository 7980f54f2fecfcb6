/* Clocks: one per node, and how the nodes' clocks stand to each other.
 *
 *      node 0   1   2   3   4   5 ...       round 0: 1 asks 0
 *           |<--|   |   |                   round 1: 2 asks 0, 3 asks 1
 *           |<------|   |                   round 2: 4 .. 7 ask 0 .. 3: O(log nodes) rounds
 *           |   |<------|
 *
 * A node is a boot id and a time namespace, not a host name. The node of rank 0 is the first. A
 * leader asks another for the time TRIES times and keeps the answer with the shortest round trip:
 * the other's clock was read somewhere within it, so half of it bounds the error. The answers stay
 * in the leaders' tables; the analysis composes them, nothing is gathered.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/common.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/text.h"
#include "machine/clock.h"
#include "trace/file.h"

enum { TRIES = 20, TAG = 19937, STALE_NS = 20000 };

struct place { /* one a rank */
    uint64_t node;
    int64_t world_rank;
};
struct offset {
    int64_t ahead_ns, error_ns, at_ns; /* at_ns 0: never compared */
    double rate, rate_error;
};
static struct place *places;
static struct offset *offsets; /* room for those of all ranks */
static int *leaders, nodes, my_node = -1;

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

/* The name of this node's clock. MPIPROF_NODE stands in for it in tests of several nodes. */
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

/* Whether all ranks have memory for the clocks of all; called by all of them. */
static bool have_memory(MPI_Comm comm, int size)
{
    int64_t lacks, any = 1;

    places = memory_get(sizeof *places * (size_t)size);
    leaders = memory_get(sizeof *leaders * (size_t)size);
    offsets = memory_get(sizeof *offsets * (size_t)size);
    lacks = places == NULL || leaders == NULL || offsets == NULL;
    if (pmpi.Allreduce == NULL)
        return !lacks;
    return pmpi.Allreduce(&lacks, &any, 1, MPI_INT64_T, MPI_MAX, comm) == MPI_SUCCESS && !any;
}

/* Learns which ranks share a clock; every member of recorder.private calls it. False: some lack
 * memory for that. */
bool clock_nodes(MPI_Comm comm)
{
    struct place mine = {clock_node_hash(), recorder.rank};
    int size = 0;

    pmpi.Comm_size(comm, &size);
    if (!have_memory(comm, size))
        return false;
    pmpi.Allgather(&mine, sizeof mine, MPI_BYTE, places, sizeof mine, MPI_BYTE, comm);
    struct map seen = {0};

    recorder_lock();
    for (int i = 0; i < size; i++) {
        const uintptr_t known = (uintptr_t)map_get(&seen, places[i].node);

        if (known == 0) {
            leaders[nodes++] = i;
            map_put(&seen, places[i].node, (void *)(uintptr_t)nodes);
        }
        if (places[i].node == mine.node && my_node < 0)
            my_node = known == 0 ? nodes - 1 : (int)known - 1;
    }
    memory_free(seen.table);
    recorder_unlock();
    return true;
}

int clock_node_count(void)
{
    return nodes;
}

/* The leader of a node, as a rank of recorder.private. */
int clock_leader(int node)
{
    return leaders[node];
}

bool clock_on_node(int rank, int node)
{
    return places[rank].node == places[leaders[node]].node;
}

/* Another rank of the first node, or -1. */
int clock_neighbour(int size)
{
    for (int i = 0; i < size; i++)
        if (i != leaders[0] && places[i].node == places[leaders[0]].node)
            return i;
    return -1;
}

/* This node's clock against the first node's: what it is ahead by, how well that is known, and how
 * fast it changes. Two quartz clocks part by no more than DRIFT; after two comparisons it is known
 * how fast these two do. Of leaders, and by clock_share of all ranks. */
static const struct offset never;
static const struct offset *_Atomic known = &never; /* replaced, never changed: threads read it */
static int64_t origin;
static const double drift = 1e-5, wander = 2e-7;

static void answer(int leader)
{
    for (int i = 0; i < TRIES; i++) {
        int64_t t[3] = {0};

        pmpi.Recv(t, sizeof *t, MPI_BYTE, leader, TAG, recorder.private, MPI_STATUS_IGNORE);
        t[0] = now_ns();
        t[1] = clock_common(t[0]) + origin - t[0];
        t[2] = clock_bound();
        pmpi.Send(t, sizeof t, MPI_BYTE, leader, TAG, recorder.private);
    }
}

/* A few in a run: the old ones stay, as a reader may still be in them. */
static void publish(struct offset now)
{
    struct offset *const made = memory_get(sizeof *made);

    if (made == NULL)
        return;
    *made = now;
    atomic_store(&known, made);
}

/* From a comparison at a time of this node's clock. */
static void compared(int64_t at, int64_t ahead, int64_t error)
{
    const struct offset before = *atomic_load(&known);
    struct offset now = {ahead, error, at, before.rate, before.rate_error};

    if (before.at_ns == 0)
        now.rate_error = drift;
    if (before.at_ns > 0 && at > before.at_ns) {
        const double span = (double)(at - before.at_ns);
        const double rate_error = (double)(error + before.error_ns) / span + wander;

        if (rate_error < drift) { /* else too short a span to say anything */
            now.rate = (double)(ahead - before.ahead_ns) / span;
            now.rate_error = rate_error;
        }
    }
    publish(now);
}

static void ask(int leader, const char *when)
{
    int64_t best = INT64_MAX, offset = 0, at = 0, above = 0, bound = 0;
    struct text t = {0};

    for (int i = 0; i < TRIES; i++) {
        int64_t theirs[3] = {0};
        const int64_t before = now_ns();

        pmpi.Send(theirs, sizeof *theirs, MPI_BYTE, leader, TAG, recorder.private);
        pmpi.Recv(theirs, sizeof theirs, MPI_BYTE, leader, TAG, recorder.private,
                  MPI_STATUS_IGNORE);
        const int64_t after = now_ns();

        if (after - before < best) {
            best = after - before;
            at = before + best / 2;
            offset = theirs[0] - at;
            above = theirs[1];
            bound = theirs[2];
        }
    }
    compared(at, offset + above, best / 2 + 1 + bound);
    text_add(&t, "{\"rank\": %d, \"clock\": {\"node\": ", recorder.rank);
    text_json(&t, clock_node(), -1);
    text_add(&t, ", \"reference\": %lld, \"at_ns\": %lld, \"offset_ns\": %lld, ",
             (long long)places[leader].world_rank, (long long)at, (long long)offset);
    text_add(&t, "\"error_ns\": %lld, \"when\": \"%s\"}}\n", (long long)(best / 2 + 1), when);
    file_line(&t);
    text_free(&t);
}

/* Every member of recorder.private calls it; only node leaders of several nodes communicate. */
void clock_synchronise(const char *when)
{
    int rank = -1;

    pmpi.Comm_rank(recorder.private, &rank);
    if (nodes < 2 || leaders[my_node] != rank)
        return;
    for (int step = 1; step < nodes; step *= 2) {
        if (my_node < step && my_node + step < nodes)
            answer(leaders[my_node + step]);
        else if (my_node >= step && my_node < 2 * step)
            ask(leaders[my_node - step], when);
    }
}

/* Every member of recorder.private calls it, after a comparison: what leaders know, all know. */
void clock_share(void)
{
    struct offset mine = *atomic_load(&known);

    pmpi.Allgather(&mine, sizeof mine, MPI_BYTE, offsets, sizeof mine, MPI_BYTE, recorder.private);
    if (my_node >= 0)
        publish(offsets[leaders[my_node]]);
    if (origin == 0)
        origin = now_ns();
    pmpi.Bcast(&origin, sizeof origin, MPI_BYTE, leaders[0], recorder.private);
}

/* A time of this node's clock on the first node's, since an origin that all share. */
int64_t clock_common(int64_t ns)
{
    const struct offset *const o = atomic_load(&known);
    const double since = o->at_ns > 0 ? (double)(ns - o->at_ns) : 0;

    return ns + o->ahead_ns + (int64_t)(o->rate * since) - origin;
}

/* How wrong that may be now. */
int64_t clock_bound(void)
{
    const struct offset *const o = atomic_load(&known);

    if (o->at_ns == 0)
        return 0;
    return o->error_ns + (int64_t)(o->rate_error * (double)(now_ns() - o->at_ns));
}

/* Whether comparing again would help. */
bool clock_is_stale(void)
{
    const struct offset *const o = atomic_load(&known);

    return o->at_ns > 0 && clock_bound() > STALE_NS && clock_bound() > 2 * o->error_ns;
}
