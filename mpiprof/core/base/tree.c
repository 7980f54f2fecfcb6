/* Communication along a binomial tree between rank 0 and all ranks, at the start and at the end. No
 * rank exchanges messages with more than log2(p) others. The parent of a rank is the rank without
 * its lowest set bit.
 *
 *      0 --- 1
 *      |---- 2 --- 3        children are in rank order: a child collects from
 *      `---- 4 --- 5        all ranks up to the next child
 *            `---- 6 --- 7
 *
 * All members of the communicator call these functions, with one thread each. Only one communicator
 * at a time collects texts, so a process has one piece.
 */
#include "base/communication.h"

#include <string.h>

#include "base/pmpi.h"

enum { TAG_SHARE = 19941, TAG_COLLECT = 19939, TAG_LAST = 19950, PIECE = 1 << 14 };
#define PAUSE_NS 500000

struct piece {
    int64_t length; /* of all of them */
    int64_t cut;    /* a rank had no memory for its part */
    char bytes[PIECE];
};
static SPARSE struct piece piece; /* static, because the thread's stack may be small */

int tree_parent(int rank)
{
    return rank & (rank - 1);
}

/* Store the children in ascending order. Returns their number. */
int tree_children(int rank, int size, int *children)
{
    int count = 0;

    for (int step = 1; step < size - rank && (rank & step) == 0 && count < TREE_CHILDREN; step *= 2)
        children[count++] = rank + step;
    return count;
}

/* Receive from the parent. If `patient` is true, the rank sleeps between tests to free its core. */
static void parent_receive(void *what, int bytes, bool patient, int parent, MPI_Comm comm)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    MPI_Request request;
    int done = 0;

    if (!patient) {
        pmpi.Recv(what, bytes, MPI_BYTE, parent, TAG_SHARE, comm, MPI_STATUS_IGNORE);
        return;
    }
    pmpi.Irecv(what, bytes, MPI_BYTE, parent, TAG_SHARE, comm, &request);
    while (pmpi.Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        nanosleep(&pause, NULL);
}

void tree_broadcast(void *what, int bytes, bool patient, MPI_Comm comm)
{
    int children[TREE_CHILDREN], rank = 0, size = 1;

    pmpi.Comm_rank(comm, &rank);
    pmpi.Comm_size(comm, &size);
    if (rank > 0)
        parent_receive(what, bytes, patient, tree_parent(rank), comm);
    for (int i = tree_children(rank, size, children); i-- > 0;) /* the largest subtree first */
        pmpi.Send(what, bytes, MPI_BYTE, children[i], TAG_SHARE, comm);
}

static int piece_length(int64_t length)
{
    return (int)(length < PIECE ? length : PIECE);
}

static void pieces_send(const struct text *t, int parent, MPI_Comm comm)
{
    const int64_t length = (int64_t)t->length;
    int64_t at = 0;

    piece.length = length;
    piece.cut = t->cut;
    do {
        const int part = piece_length(length - at);

        if (part > 0)
            memcpy(piece.bytes, t->bytes + at, (size_t)part);
        pmpi.Send(&piece, (int)offsetof(struct piece, bytes) + part, MPI_BYTE, parent, TAG_COLLECT,
                  comm);
        at += part;
    } while (at < length);
}

/* Append a child's text. A child that was lost has sent nothing. */
static void child_receive(struct text *t, int child, MPI_Comm comm)
{
    int64_t at = 0;

    do {
        piece.length = piece.cut = 0;
        if (pmpi.Recv(&piece, sizeof piece, MPI_BYTE, child, TAG_COLLECT, comm,
                      MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        const int part = piece_length(piece.length - at);

        text_bytes(t, piece.bytes, (size_t)part);
        t->cut |= piece.cut != 0;
        at += part;
    } while (at < piece.length);
}

/* Collect the texts of all ranks on rank 0 in rank order. If `join` is not NULL, it is called after
 * each appended text, with the length before it. */
void tree_collect(struct text *t, tree_join join, MPI_Comm comm)
{
    int children[TREE_CHILDREN], rank = 0, size = 1;

    if (comm == MPI_COMM_NULL)
        return;
    pmpi.Comm_rank(comm, &rank);
    pmpi.Comm_size(comm, &size);
    const int count = tree_children(rank, size, children);

    for (int i = 0; i < count; i++) {
        const size_t earlier = t->length;

        child_receive(t, children[i], comm);
        if (join != NULL)
            join(t, earlier);
    }
    if (rank > 0)
        pieces_send(t, tree_parent(rank), comm);
}
