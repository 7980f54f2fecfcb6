/* What is written at the end by rank 0, from all ranks. */
#include "base/collect.h"
#include "base/memory.h"
#include "base/native.h"
#include "base/pmpi.h"
#include "base/recorder.h"
#include "base/text.h"

static int part_of(int64_t length, size_t most)
{
    return (int)(length < (int64_t)most ? length : (int64_t)most);
}

/* Rank 0 gets the texts of all ranks, with `between` between them; `comm` has all ranks, or is
 * MPI_COMM_NULL. */
void collect_text(struct text *t, const char *between, MPI_Comm comm)
{
    enum { TAG = 19939 };
    char piece[1 << 14];
    const int64_t mine = (int64_t)t->length;

    if (comm == MPI_COMM_NULL)
        return;
    int64_t *const lengths = memory_get((size_t)recorder.size * sizeof *lengths);

    if (lengths == NULL)
        return;
    pmpi.Allgather(&mine, sizeof mine, MPI_BYTE, lengths, sizeof mine, MPI_BYTE, comm);
    for (int64_t at = 0; recorder.rank > 0 && at < mine; at += (int)sizeof piece)
        pmpi.Send(t->bytes + at, part_of(mine - at, sizeof piece), MPI_BYTE, 0, TAG, comm);
    for (int i = 1; recorder.rank == 0 && i < recorder.size; i++) {
        if (t->length > 0 && lengths[i] > 0)
            text_add(t, "%s", between);
        for (int64_t at = 0; at < lengths[i]; at += (int)sizeof piece) {
            const int part = part_of(lengths[i] - at, sizeof piece);

            pmpi.Recv(piece, part, MPI_BYTE, i, TAG, comm, MPI_STATUS_IGNORE);
            text_add(t, "%.*s", part, piece);
        }
    }
    memory_free(lengths);
}
