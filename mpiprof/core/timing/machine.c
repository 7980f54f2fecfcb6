/* The machine table: message times T(m) within and between nodes, one way and both ways at once,
 * the time to reduce a byte, the time of a page fault, and in `calibrate` the library's transport.
 * Rank 0 measures by ping-pong with a neighbour on its node and with the leader of another node.
 *
 * In MPI_Init the measurement takes at most 50 ms, with few sizes and as many repetitions as fit.
 * Omitted sizes are reported. `calibrate` has no such limit.
 */
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/communication.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "timing/timing.h"

enum { VECTOR = 8192, FRESH_PAGES = 32, FRESH_TIMES = 4 };

/* Link parameters for predictions on all ranks: the slowest measured link, or without a
 * measurement that of an Ethernet, or that of a node's memory if all ranks are on one node. */
struct link machine_link = {20000, 1, 0, 0};
static const struct link memory_link = {1000, 0.1, 0, 0};

void machine_link_set(const struct link *measured, bool on_one_node)
{
    if (measured->alpha > 0 && measured->beta > 0)
        machine_link = *measured;
    else if (on_one_node)
        machine_link = memory_link;
}

/* Return the time in ns of so many bytes through a port that was idle before. */
double machine_message_ns(const struct link *l, double bytes)
{
    const double late = bytes > l->buffer ? bytes - l->buffer : 0;

    return l->beta * (bytes - late) + link_byte_ns(l) * late;
}

static double gamma_of(MPI_Datatype type, int bytes, MPI_Op op, int repetitions)
{
    static SPARSE char vectors[2][VECTOR];
    int64_t best = INT64_MAX;

    memset(vectors, 0, sizeof vectors);
    for (int i = 0; i < repetitions; i++) {
        const int64_t before = now_ns();

        pmpi.Reduce_local(vectors[0], vectors[1], VECTOR / bytes, type, op);
        const int64_t took = now_ns() - before;

        best = took < best ? took : best;
    }
    return (double)best / VECTOR;
}

/* Open MPI's MPI_Reduce_local accesses MPI_COMM_WORLD, which does not exist under Sessions without
 * MPI_Init. */
bool machine_can_reduce(void)
{
#ifdef MPIPROF_ABI_openmpi
    int initialised = 0;

    pmpi.Initialized(&initialised);
    return initialised != 0;
#else
    return true;
#endif
}

static void gamma_add(struct text *out, bool full)
{
    if (!machine_can_reduce()) {
        text_add(out, ", \"gamma_sum_ns_per_byte\": null, \"gamma_maxloc_ns_per_byte\": null");
        return;
    }
    text_add(out, ", \"gamma_sum_ns_per_byte\": %.6f, \"gamma_maxloc_ns_per_byte\": %.6f",
             gamma_of(MPI_DOUBLE, 8, MPI_SUM, full ? 1000 : 20),
             gamma_of(MPI_DOUBLE_INT, 16, MPI_MAXLOC, full ? 1000 : 20));
}

static int64_t processor_time_ns(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Return the processor time in ns of a first access to a page, with its release, and 0 if it is
 * unknown. Huge pages are avoided, because each needs a single fault. The measurement takes 0.1 to
 * 0.5 ms. */
static double page_fault_ns(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = FRESH_PAGES * page;
    int64_t best = INT64_MAX;

    for (int i = 0; i < FRESH_TIMES; i++) {
        const int64_t before = processor_time_ns();
        volatile char *const pages =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (pages == MAP_FAILED)
            return 0;
        madvise((void *)pages, bytes, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < bytes; at += page)
            pages[at] = 1;
        munmap((void *)pages, bytes);
        const int64_t took = processor_time_ns() - before;

        best = took < best ? took : best;
    }
    return (double)best / FRESH_PAGES;
}

/* Measure the machine table. Every member of recorder.private calls it; rank 0 gets the JSON. The
 * other ranks sleep: if ranks outnumber cores, polling would disturb the measurement. */
void machine_measure(struct text *out, bool full)
{
    static SPARSE struct pingpong within, between;
    const bool several_nodes = clock_layout.second_leader >= 0;
    const int peer = several_nodes ? clock_layout.second_leader : clock_layout.neighbour;
    struct transport transport = {0};
    int rank = -1;
    char made = 1;

    pmpi.Comm_rank(recorder.private, &rank);
    if (rank == 0) {
        memset(&within, 0, sizeof within);
        memset(&between, 0, sizeof between);
    }
    if (clock_layout.neighbour >= 0)
        pingpong_measure(&within, rank, 0, clock_layout.neighbour, full, false);
    if (clock_layout.second_leader >= 0)
        pingpong_measure(&between, rank, 0, clock_layout.second_leader, full, true);
    if (full && peer >= 0) {
        const struct link link =
            rank == 0 ? pingpong_link(several_nodes ? &between : &within) : (struct link){0};

        transport = transport_measure(rank, 0, peer, &link);
    }
    tree_broadcast(&made, sizeof made, true, recorder.private);
    if (rank == 0) {
        text_add(out, "{\"source\": \"%s\", \"within\": ", full ? "calibrate" : "init");
        pingpong_write(out, &within);
        text_add(out, ", \"between\": ");
        pingpong_write(out, &between);
        gamma_add(out, full);
        text_add(out, ", \"page_fault_ns\": %.1f", page_fault_ns());
        if (full)
            transport_write(out, &transport);
        text_add(out, "}");
        memory_pages_release(&within, sizeof within);
        memory_pages_release(&between, sizeof between);
    }
}
