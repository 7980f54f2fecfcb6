/* Operations on the state of a call that runs on a schedule. */
#include <string.h>

#include "base/pmpi.h"
#include "base/symbol_lookup.h"
#include "executor/execution.h"

#ifndef CHUNK
#define CHUNK (INT64_C(1) << 28) /* bytes; for an operand, bytes of its type signature */
#endif

void execution_note(struct execution *e, int error)
{
    if (e->error == MPI_SUCCESS)
        e->error = error;
}

/* Copy at most one chunk. Gaps between and inside elements are not touched. */
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

char *execution_address(const struct execution *e, int buffer, int64_t offset)
{
    return e->buffers[buffer] + (e->reduces ? offset / e->unit * e->extent : offset);
}

/* Return the length of the next chunk of a message or copy: whole elements. */
int64_t execution_chunk(const struct execution *e, int64_t length)
{
    const int64_t most = e->reduces ? CHUNK / e->unit * e->unit + e->unit : CHUNK;

    return length < most ? length : most;
}

int execution_elements(const struct execution *e, int64_t bytes)
{
    return (int)(e->reduces ? bytes / e->unit : bytes);
}
