/* The transport of the library between two ranks, for the simulator: its eager limit, whether it
 * buffers eager messages, and the time of an unexpected message per byte. Only `calibrate` measures
 * it.
 *
 *      leader   command |            send -------------|                 <- receive's time
 *      peer             | -> ready   sleep outside MPI | receive         ->
 *
 * A message is eager if its send ends in three quarters of the peer's sleep, which is much longer
 * than the message takes. It is buffered if its send ends in less than half of the time that its
 * bytes take. An eager message has arrived when its receive begins. Over TCP, the limit
 * is that of the sockets' buffers if the library has a larger one.
 *
 * All state belongs to the calling thread. Caller: machine.c.
 */
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "timing/timing.h"

enum { TAG = 19939, LEAST = 1024, LARGEST = 1 << 22, COPIED = 65536, REPETITIONS = 3 };
#define PAUSE_NS INT64_C(50000000) /* besides four times the message time */

struct transport_command {
    int64_t bytes, pause_ns;
};

static char *buffer;

static void peer_run(int leader)
{
    struct transport_command c = {0};

    for (;;) {
        pmpi.Recv(&c, sizeof c, MPI_BYTE, leader, TAG, recorder.private, MPI_STATUS_IGNORE);
        if (c.bytes < 0)
            return;
        pmpi.Send(NULL, 0, MPI_BYTE, leader, TAG, recorder.private);
        const struct timespec pause = {.tv_sec = c.pause_ns / 1000000000,
                                       .tv_nsec = c.pause_ns % 1000000000};

        nanosleep(&pause, NULL);
        int64_t took = now_ns();

        pmpi.Recv(buffer, (int)c.bytes, MPI_BYTE, leader, TAG, recorder.private, MPI_STATUS_IGNORE);
        took = now_ns() - took;
        pmpi.Send(&took, sizeof took, MPI_BYTE, leader, TAG, recorder.private);
    }
}

static int64_t shorter_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ns; the shortest of some repetitions */
struct times {
    int64_t send, receive, pause;
};

static struct times leader_send(int peer, int bytes, double usual_ns)
{
    const struct transport_command c = {bytes, PAUSE_NS + (int64_t)(4 * usual_ns)};
    struct times best = {INT64_MAX, INT64_MAX, c.pause_ns};

    for (int i = 0; i < REPETITIONS; i++) {
        int64_t took = 0;

        pmpi.Send(&c, sizeof c, MPI_BYTE, peer, TAG, recorder.private);
        pmpi.Recv(NULL, 0, MPI_BYTE, peer, TAG, recorder.private, MPI_STATUS_IGNORE);
        const int64_t start = now_ns();

        pmpi.Send(buffer, bytes, MPI_BYTE, peer, TAG, recorder.private);
        best.send = shorter_of(now_ns() - start, best.send);
        pmpi.Recv(&took, sizeof took, MPI_BYTE, peer, TAG, recorder.private, MPI_STATUS_IGNORE);
        best.receive = shorter_of(took, best.receive);
    }
    return best;
}

/* Return an upper bound of the time of a message. */
static double message_ns(const struct link *l, int bytes)
{
    return l->alpha + link_byte_ns(l) * bytes;
}

static struct transport leader_run(int peer, const struct link *link)
{
    static const struct transport_command end = {.bytes = -1};
    struct transport t = {.eager_limit = 0};

    for (int bytes = LEAST; bytes <= LARGEST; bytes *= 2) {
        const struct times took = leader_send(peer, bytes, message_ns(link, bytes));

        if (took.send > took.pause / 4 * 3)
            break;
        t.eager_limit = bytes;
    }
    const int copied = t.eager_limit < COPIED ? t.eager_limit : COPIED;

    const struct times empty = leader_send(peer, 0, message_ns(link, 0));
    const struct times full = leader_send(peer, copied, message_ns(link, copied));

    if (copied > 0 && full.receive > empty.receive)
        t.copy = (double)(full.receive - empty.receive) / copied;
    t.buffered = copied > 0 && (double)(full.send - empty.send) < copied * link_byte_ns(link) / 2;
    pmpi.Send(&end, sizeof end, MPI_BYTE, peer, TAG, recorder.private);
    return t;
}

/* Measure on the leader with the help of the peer; other ranks return at once. `link` is known to
 * the leader. */
struct transport transport_measure(int rank, int leader, int peer, const struct link *link)
{
    struct transport t = {0};

    if (rank != leader && rank != peer)
        return t;
    buffer = calloc(1, LARGEST);
    if (buffer == NULL)
        abort(); /* only in `calibrate`, which runs no program of the user */
    if (rank == leader)
        t = leader_run(peer, link);
    else
        peer_run(leader);
    free(buffer);
    buffer = NULL;
    return t;
}

/* The window is the eager limit: as many bytes are under way without any help of the receiver. */
void transport_write(struct text *out, const struct transport *t)
{
    text_add(out, ", \"transport\": {\"eager_limit\": %d, \"window\": %d, ", t->eager_limit,
             t->eager_limit);
    text_add(out, "\"copy_ns_per_byte\": %.4f, \"buffered\": %s}", t->copy,
             t->buffered ? "true" : "false");
}
