/* Random messages between all ranks, with known answers: the arguments are a seed and a number of
 * rounds. Every rank computes the same plan. In each round, each message of the plan is sent by one
 * of the calls below and received by another, with or without wildcards. The data name the message,
 * so a wrong match ends the program. Each rank prints one line per message that it has received:
 * "source destination tag bytes". */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, LONGEST = 20000, TAGS = 40, TAG_CLASSES = 16 };
enum { WAITALL, WAITANY, WAITSOME, TESTALL, TESTANY, TESTSOME, WAITS, WAYS };

struct message {
    int source, destination, tag, bytes, how_sent, how_received;
};

static uint64_t state;

static int random_below(int limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)limit);
}

static void fail(const char *what, const struct message *m)
{
    fprintf(stderr, "%s: %d -> %d, tag %d\n", what, m->source, m->destination, m->tag);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Start or finish the send of a message. Returns its request, or MPI_REQUEST_NULL. */
static MPI_Request send_one(const struct message *m, const char *data)
{
    MPI_Request r = MPI_REQUEST_NULL;

    switch (m->how_sent) {
    case 0: MPI_Isend(data, m->bytes, MPI_CHAR, m->destination, m->tag, MPI_COMM_WORLD, &r); break;
    case 1: MPI_Issend(data, m->bytes, MPI_CHAR, m->destination, m->tag, MPI_COMM_WORLD, &r); break;
    case 2: MPI_Ibsend(data, m->bytes, MPI_CHAR, m->destination, m->tag, MPI_COMM_WORLD, &r); break;
    case 3:
        MPI_Send_init(data, m->bytes, MPI_CHAR, m->destination, m->tag, MPI_COMM_WORLD, &r);
        MPI_Start(&r);
        break;
    default: MPI_Bsend(data, m->bytes, MPI_CHAR, m->destination, m->tag, MPI_COMM_WORLD);
    }
    return r;
}

static void check(const struct message *m, const char *data, const MPI_Status *s)
{
    int bytes;

    MPI_Get_count(s, MPI_CHAR, &bytes);
    if (s->MPI_SOURCE != m->source || s->MPI_TAG != m->tag || bytes != m->bytes)
        fail("wrong status", m);
    if (bytes > 0 && data[bytes - 1] != (char)(m->source + m->tag + bytes))
        fail("wrong data", m);
    printf("%d %d %d %d\n", m->source, m->destination, m->tag, bytes);
}

/* Receive one message at once. Only then may wildcards be used, because its source must be known. */
static void receive_now(const struct message *m, char *data, int any)
{
    const int source = any ? MPI_ANY_SOURCE : m->source, tag = m->tag;
    MPI_Message message;
    MPI_Request r;
    MPI_Status s;
    int found = 0;

    switch (m->how_received) {
    case 0: MPI_Recv(data, LONGEST, MPI_CHAR, source, tag, MPI_COMM_WORLD, &s); break;
    case 1:
        MPI_Probe(source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, LONGEST, MPI_CHAR, source, tag, MPI_COMM_WORLD, &s);
        break;
    case 2:
        MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(data, LONGEST, MPI_CHAR, &message, &s);
        break;
    case 3:
        while (!found)
            MPI_Iprobe(source, tag, MPI_COMM_WORLD, &found, &s);
        MPI_Recv(data, LONGEST, MPI_CHAR, s.MPI_SOURCE, s.MPI_TAG, MPI_COMM_WORLD, &s);
        break;
    case 4:
        MPI_Recv_init(data, LONGEST, MPI_CHAR, source, tag, MPI_COMM_WORLD, &r);
        MPI_Start(&r);
        MPI_Wait(&r, &s);
        MPI_Request_free(&r);
        break;
    default:
        MPI_Irecv(data, LONGEST, MPI_CHAR, source, tag, MPI_COMM_WORLD, &r);
        while (!found)
            MPI_Test(&r, &found, &s);
    }
    check(m, data, &s);
}

/* Complete requests in one of the ways, each time in an array at another place. */
static void complete_all(MPI_Request *requests, int count, MPI_Status *statuses, int way)
{
    MPI_Request *moved = NULL;
    int done = 0, all = 0, some = 0, indices[MOST];
    MPI_Status found[MOST];

    while (done < count) {
        MPI_Request *const copy = malloc(MOST * sizeof *copy);

        memcpy(copy, moved != NULL ? moved : requests, (size_t)count * sizeof *copy);
        free(moved);
        moved = copy;
        switch (way) {
        case WAITALL:
            MPI_Waitall(count, moved, statuses);
            all = 1;
            break;
        case TESTALL: MPI_Testall(count, moved, &all, statuses); break;
        case WAITANY:
            MPI_Waitany(count, moved, indices, found);
            some = 1;
            break;
        case TESTANY: MPI_Testany(count, moved, indices, &some, found); break;
        case WAITSOME: MPI_Waitsome(count, moved, &some, indices, found); break;
        case TESTSOME: MPI_Testsome(count, moved, &some, indices, found); break;
        default: /* one after the other, from the last */
            indices[0] = count - 1 - done;
            MPI_Wait(&moved[indices[0]], found);
            some = 1;
        }
        for (int i = 0; i < some; i++)
            statuses[indices[i]] = found[i];
        done += all ? count : some;
    }
    free(moved);
}

static void round_run(int rank, const struct message *plan, int count, int posted, int way)
{
    static char out[MOST][LONGEST], in[MOST][LONGEST];
    MPI_Request requests[2 * MOST];
    MPI_Status statuses[2 * MOST];
    int sends = 0, receives = 0, which[MOST];

    for (int i = 0; posted && i < count; i++) /* posted before the sends */
        if (plan[i].destination == rank) {
            which[receives] = i;
            MPI_Irecv(in[i], LONGEST, MPI_CHAR, plan[i].source, plan[i].tag, MPI_COMM_WORLD,
                      &requests[receives++]);
        }
    for (int i = 0; i < count; i++)
        if (plan[i].source == rank) {
            memset(out[i], plan[i].source + plan[i].tag + plan[i].bytes, LONGEST);
            requests[MOST + sends++] = send_one(&plan[i], out[i]);
        }
    for (int i = count - 1; !posted && i >= 0; i--) /* in another order than they are sent */
        if (plan[i].destination == rank)
            receive_now(&plan[i], in[i], plan[i].how_sent % 2);
    complete_all(requests, receives, statuses, way);
    for (int i = 0; i < receives; i++)
        check(&plan[which[i]], in[which[i]], &statuses[i]);
    for (int i = 0; i < sends; i++) {
        MPI_Request *const r = &requests[MOST + i];

        MPI_Wait(r, MPI_STATUS_IGNORE);
        if (*r != MPI_REQUEST_NULL)
            MPI_Request_free(r);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* a wildcard must not match a message of the next round */
}

int main(int argc, char **argv)
{
    static char buffer[64 * LONGEST];
    struct message plan[MOST];
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Buffer_attach(buffer, sizeof buffer);
    state = (uint64_t)atoll(argv[1]);
    for (int i = 0; i < atoi(argv[2]); i++) {
        const int count = 1 + random_below(MOST), posted = random_below(2);
        const int apart = random_below(2) ? TAG_CLASSES : 1; /* the tags share a counter, or not */

        for (int j = 0; j < count; j++)
            plan[j] = (struct message){.source = random_below(size),
                                       .destination = random_below(size),
                                       .tag = apart * (j + MOST * random_below(TAGS / MOST)),
                                       .bytes = random_below(10) > 0 ? random_below(100)
                                                                     : random_below(LONGEST),
                                       .how_sent = random_below(5),
                                       .how_received = random_below(6)};
        round_run(rank, plan, count, posted, random_below(WAYS));
    }
    MPI_Finalize();
    return 0;
}
