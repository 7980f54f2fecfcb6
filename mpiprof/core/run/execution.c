/* What the parts of a call that runs on a schedule share. */
#include <string.h>

#include "base/native.h"
#include "base/pmpi.h"
#include "run/execution.h"

void execution_note(struct execution *e, int error)
{
    if (e->error == MPI_SUCCESS)
        e->error = error;
}

/* No longer than a chunk. Of elements with gaps only the data is touched. */
void execution_copy(struct execution *e, char *to, char *from, int64_t length)
{
    const int count = (int)(e->reduces ? length / e->unit : length);
    int rank = 0;

    if (to == from)
        return;
    if (e->solid && e->unit == e->extent) {
        memmove(to + e->lower, from + e->lower, (size_t)length);
    } else if (e->solid) {
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * e->extent + e->lower, from + i * e->extent + e->lower, (size_t)e->unit);
    } else {
        pmpi.Comm_rank(e->comm, &rank);
        execution_note(e, pmpi.Sendrecv(from, count, e->type, rank, e->tag, to, count, e->type,
                                        rank, e->tag, e->comm, MPI_STATUS_IGNORE));
    }
}
