/* Handshake of all members of a communicator, in which some members may not answer.
 *
 *      child  --hello-->   parent  --verdict-->   child
 *      child  --answer-->  parent  --together-->  child      a hello includes the subtree below
 *
 * If all ranks are known to record (recorder.h: together), messages follow a binomial tree
 * (tree.c), with O(log p) messages per rank. Ranks of one part share a command line and usually
 * record identically, except in scripts that depend on the rank. An unrecorded rank would never
 * answer a collective call, and its receives could match the recorder's messages. So if ranks are
 * not known to record, rank 0 is the parent of all, with O(p) small messages. Then an unrecorded
 * process receives a message only if a script leaves rank 0 unrecorded. In a launch of several
 * parts nothing is sent to unrecorded processes (mpmd.c). A rank with an unrecorded tree parent is
 * the head of its subtree; such subtrees record without communication, as with --partial.
 *
 * The exchange is nonblocking, and nothing else starts before every rank has sent its hello. A
 * rank waits `patience` for the ranks below it, plus STEP_NS per level, then continues without the
 * silent ones. Rank 0 names them, and all ranks record without communication. A rank that receives
 * no verdict for longer leaves by itself. Rank 0, which may be the late one, must learn of that. So
 * each rank answers for its subtree, and ranks that stay wait for the final message. The
 * communicator is the user's; the tag is one that programs hardly use. All receives are posted
 * before any send, so a late message never matches a receive of the program.
 */
#include "init/init.h"

#include <stdio.h>
#include <string.h>

#include "base/communication.h"
#include "base/pmpi.h"
#include "timing/timing.h"

enum { BELOW_BOUND = 19936, NAMED = 8 };
enum answer { LEAVES, STAYS };
#define WAIT_NS INT64_C(10000000000)
/* Members that just created a communicator together answer at once. A silent member will probably
 * stay silent, so handshakes after the first silence have a short time limit. */
#define AGAIN_NS INT64_C(2000000000)
#define AFTER_SILENCE_NS INT64_C(100000000)
#define STEP_NS INT64_C(500000000)

struct hello {
    int64_t rules;  /* hash of all that affects selection (options.c) */
    int64_t alike;  /* all ranks below have the same hash */
    int64_t begun;  /* some ranks started earlier */
    int64_t node;   /* hash that identifies the node */
    int64_t apart;  /* some ranks below are on other nodes */
    int64_t heard;  /* number of ranks included in this hello */
    int64_t harmed; /* number of these ranks that must not record */
    int64_t silent; /* number of ranks found silent; the first are in `named` */
    int64_t named[NAMED];
};

struct child {
    int rank;
    bool heard;
    MPI_Request hello, answer;
    struct hello says;
    int64_t stays;
};

/* State of one handshake. If receives are unanswered, it stays allocated until MPI_Finalize. */
struct meeting {
    struct meeting *next;
    MPI_Comm comm;
    int rank, size, parent, count, levels; /* levels: of the tree below this rank */
    int64_t patience;
    struct child *children;
    MPI_Request verdict_request, final_request;
    struct hello own;
    int64_t answer, together;
    struct verdict verdict;
};
static struct meeting *unanswered; /* protected by recorder.lock */
static int tag = BELOW_BOUND;
static atomic_bool rank_is_silent; /* set once some rank has not answered */

/* Return true if little address space is left (`ulimit -v`): libraries abort if they get none. */
static bool lacks_memory(void)
{
    return !memory_reserve_exists || !memory_is_left(0);
}

/* Return true if recording might harm the program. */
bool bootstrap_lacks_memory(void)
{
    return lacks_memory() || symbol_lookup_other_tool() != NULL;
}

void bootstrap_report_memory(int64_t harmed, int64_t ranks)
{
    const char *const foreign = symbol_lookup_other_tool();

    if (foreign != NULL && !lacks_memory())
        recorder_print("the program has its own %s, which hides its communicators, so it runs "
                       "unrecorded: if it contains another MPI profiler, remove that profiler",
                       foreign);
    else
        recorder_print(
            "%lld of %lld ranks have less than %d MB of address space left (ulimit -v), or "
            "their own MPI_Comm_free: the program runs unrecorded",
            (long long)harmed, (long long)ranks, MEMORY_RESERVED_MB);
}

/* Return this process's hello. A process that records nothing never matches another. */
static struct hello hello_make(bool begun)
{
    const bool records = !begun || atomic_load(&recorder.active);

    return (struct hello){.rules = records ? options_fingerprint() : 0,
                          .alike = records,
                          .begun = begun,
                          .node = (int64_t)clock_node_hash(),
                          .heard = 1,
                          .harmed = !begun && bootstrap_lacks_memory()};
}

static void receive_post(void *what, size_t bytes, int from, struct meeting *m,
                         MPI_Request *request)
{
    pmpi.Irecv(what, (int)bytes, MPI_BYTE, from, tag, m->comm, request);
}

/* Send from memory in m, which outlives the message. */
static void parent_send(struct meeting *m, const void *what, size_t bytes)
{
    MPI_Request sent;

    pmpi.Isend(what, (int)bytes, MPI_BYTE, m->parent, tag, m->comm, &sent);
    pmpi.Request_free(&sent);
}

/* The children's hellos have arrived, so the hello requests are reused for the sends. */
static void children_send(struct meeting *m, const void *what, size_t bytes)
{
    for (struct child *c = m->children + m->count; c-- > m->children;) /* largest subtree first */
        if (c->heard)
            pmpi.Isend(what, (int)bytes, MPI_BYTE, c->rank, tag, m->comm, &c->hello);
    for (int i = 0; i < m->count; i++)
        if (m->children[i].heard)
            pmpi.Wait(&m->children[i].hello, MPI_STATUS_IGNORE);
}

/* Set parent and children: the recording ranks along the tree, or rank 0 as the parent of all.
 * Returns false if memory is insufficient. */
static bool tree_set(struct meeting *m, bool several)
{
    const bool by_tree = several || recorder.options.together;
    int below[TREE_CHILDREN], count = m->rank == 0 ? m->size - 1 : 0;

    m->parent = by_tree ? tree_parent(m->rank) : 0;
    if (by_tree)
        m->levels = count = tree_children(m->rank, m->size, below);
    m->children = memory_allocate((size_t)count * sizeof *m->children);
    for (int i = 0; m->children != NULL && i < count; i++) {
        const int rank = by_tree ? below[i] : i + 1;

        if (!several || mpmd_has_mark(rank))
            m->children[m->count++].rank = rank;
    }
    return m->children != NULL;
}

/* Allocate a handshake and post all its receives. Returns NULL if memory is insufficient. */
static struct meeting *meeting_make(MPI_Comm comm, bool several, bool heads, bool begun)
{
    struct meeting *const m = memory_allocate(sizeof *m);
    int *bound = NULL, found = 0;

    if (m == NULL)
        return NULL;
    /* The upper bound of tags differs between MPI libraries. */
    if (pmpi.Comm_get_attr(comm, MPI_TAG_UB, &bound, &found) == MPI_SUCCESS && found &&
        *bound > BELOW_BOUND)
        tag = *bound - BELOW_BOUND;
    m->comm = comm;
    pmpi.Comm_rank(comm, &m->rank);
    pmpi.Comm_size(comm, &m->size);
    m->own = hello_make(begun);
    m->patience = !begun ? WAIT_NS : atomic_load(&rank_is_silent) ? AFTER_SILENCE_NS : AGAIN_NS;
    if (!tree_set(m, several)) {
        memory_free(m);
        return NULL;
    }
    for (struct child *c = m->children, *end = c + m->count; c < end; c++) {
        receive_post(&c->says, sizeof c->says, c->rank, m, &c->hello);
        receive_post(&c->stays, sizeof c->stays, c->rank, m, &c->answer);
    }
    m->verdict_request = m->final_request = MPI_REQUEST_NULL;
    if (!heads) {
        receive_post(&m->verdict, sizeof m->verdict, m->parent, m, &m->verdict_request);
        receive_post(&m->together, sizeof m->together, m->parent, m, &m->final_request);
    }
    return m;
}

/* Receive and combine the hellos of the ranks below until the deadline. */
static void hellos_receive(struct meeting *m, int64_t deadline)
{
    struct hello *const own = &m->own;

    for (struct child *c = m->children, *end = c + m->count; c < end; c++) {
        const struct hello *const h = &c->says;

        c->heard = wait_until(&c->hello, deadline);
        if (!c->heard) {
            if (own->silent < NAMED)
                own->named[own->silent] = c->rank;
            own->silent++;
            continue;
        }
        own->alike &= h->alike && h->rules == own->rules;
        own->begun |= h->begun;
        own->apart |= h->apart || h->node != own->node;
        own->heard += h->heard;
        own->harmed += h->harmed;
        for (int64_t j = 0; j < h->silent && j < NAMED && own->silent + j < NAMED; j++)
            own->named[own->silent + j] = h->named[j];
        own->silent += h->silent;
    }
}

static void silent_report(const struct meeting *m)
{
    const struct hello *const all = &m->own;
    const long long missing = (long long)(m->size - all->heard);
    struct text list = {0};

    for (int64_t i = 0; i < all->silent && i < NAMED; i++)
        text_add(&list, "%s%lld", i > 0 ? ", " : "", (long long)all->named[i]);
    if (all->silent > NAMED)
        text_add(&list, ", ...");
    if (all->heard + all->silent < m->size)
        text_add(&list, "; other ranks answer through them");
    const char *const ranks = list.bytes != NULL ? list.bytes : "";

    if (all->begun) {
        if (!atomic_load(&rank_is_silent))
            recorder_print("%lld of %d ranks of a communicator have not answered for 2 s (%s): no "
                           "algorithm is selected on it, or on others with silent ranks",
                           missing, m->size, ranks);
    } else {
        recorder_print("%lld of %d ranks have not answered for 10 s (%s), so clocks are not "
                       "synchronised: if they run without mpiprof, pass --partial",
                       missing, m->size, ranks);
        snprintf(recorder.note, sizeof recorder.note, "%lld of %d ranks have not answered: %s",
                 missing, m->size, ranks);
    }
    text_free(&list);
}

/* Compute the head's verdict from all hellos received. */
static void verdict_compute(const struct meeting *m, struct verdict *v)
{
    const struct hello *const all = &m->own;

    v->agreed = all->alike;
    v->state |= (all->begun ? BEGUN : 0) | (all->apart ? NODES : 0);
    if (all->harmed > 0) {
        if (v->state & RECORDING)
            bootstrap_report_memory(all->harmed, m->size);
        v->state &= ~RECORDING;
    }
    v->together = all->heard == m->size;
    if (all->silent > 0) {
        silent_report(m);
        atomic_store(&rank_is_silent, true);
    }
}

/* Send the hello and wait for the verdict. Returns false if none arrives before the deadline. */
static bool verdict_await(struct meeting *m, int64_t deadline, struct verdict *v)
{
    parent_send(m, &m->own, sizeof m->own);
    if (wait_until(&m->verdict_request, deadline)) {
        *v = m->verdict;
        return true;
    }
    m->answer = LEAVES;
    parent_send(m, &m->answer, sizeof m->answer);
    if (m->rank == 1 && !m->own.begun)
        recorder_print("rank 0 has not answered for 10 s, so clocks are not synchronised: if it "
                       "runs without mpiprof, pass --partial");
    atomic_store(&rank_is_silent, true);
    v->together = 0;
    return false;
}

/* Return true if no rank has left since its hello. The result is equal on all ranks that stay. */
static bool all_remain(struct meeting *m)
{
    int64_t stay = STAYS;

    for (struct child *c = m->children, *end = c + m->count; c < end; c++) {
        wait_until(&c->answer, INT64_MAX);
        stay = c->stays == STAYS ? stay : LEAVES;
    }
    m->answer = stay;
    m->together = stay == STAYS;
    if (m->rank > 0) {
        parent_send(m, &m->answer, sizeof m->answer);
        wait_until(&m->final_request, INT64_MAX);
    }
    children_send(m, &m->together, sizeof m->together);
    return m->together != 0;
}

/* Run the handshake; all members call this. Heads pass their proposed verdict in v. Returns false
 * if this process has no memory. */
bool bootstrap_run(MPI_Comm comm, bool several, bool heads, bool begun, struct verdict *v)
{
    struct meeting *const m = meeting_make(comm, several, heads, begun);

    if (m == NULL)
        return false;
    const int64_t start = now_ns();
    int levels = 0;

    while (levels < TREE_CHILDREN && m->size >> levels > 1)
        levels++;
    hellos_receive(m, start + m->patience + m->levels * STEP_NS);
    if (heads)
        verdict_compute(m, v);
    if (heads || verdict_await(m, start + m->patience * 5 / 4 + (levels + 1) * STEP_NS, v)) {
        children_send(m, v, offsetof(struct verdict, folder) + strlen(v->folder) + 1);
        if (v->together)
            v->together = all_remain(m);
    }
    if (v->together) {
        memory_free(m->children);
        memory_free(m);
        return true;
    }
    recorder_lock(); /* freeing it would let a late message write to reused memory */
    m->next = unanswered;
    unanswered = m;
    recorder_unlock();
    return true;
}

/* Cancel unanswered receives, in MPI_Finalize or before the program may free the communicator.
 * Memory that a late message may still write to is not freed. */
void bootstrap_end(void)
{
    recorder_lock();
    struct meeting *m = unanswered;

    unanswered = NULL;
    recorder_unlock();
    for (; m != NULL; m = m->next) {
        for (int i = 0; i < m->count; i++) {
            wait_cancel(&m->children[i].hello);
            wait_cancel(&m->children[i].answer);
        }
        wait_cancel(&m->verdict_request);
        wait_cancel(&m->final_request);
    }
}
