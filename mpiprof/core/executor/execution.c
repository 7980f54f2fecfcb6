/* Operations on the state of a call that runs on a schedule. */
#include <string.h>

#include "base/pmpi.h"
#include "base/symbol_lookup.h"
#include "executor/execution.h"

#ifndef CHUNK
#define CHUNK (INT64_C(1) << 28) /* bytes; for an operand, bytes of its type signature */
#endif

void execution_note_error(struct execution *e, int error)
{
    if (e->error == MPI_SUCCESS)
        e->error = error;
}

/* Copy at most one chunk. Gaps between and inside elements are not touched. */
void execution_copy(struct execution *e, char *to, char *from, int64_t length)
{
    const int count = (int)(e->reduces ? length / e->element.unit : length);
    int rank = 0;

    if (to == from)
        return;
    if (e->element.solid && e->element.unit == e->element.extent) {
        memmove(to + e->element.lower, from + e->element.lower, (size_t)length);
    } else if (e->element.solid) {
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * e->element.extent + e->element.lower,
                   from + i * e->element.extent + e->element.lower, (size_t)e->element.unit);
    } else {
        pmpi.Comm_rank(e->route.comm, &rank);
        execution_note_error(e, pmpi.Sendrecv(from, count, e->element.type, rank, e->route.tag, to,
                                              count, e->element.type, rank, e->route.tag,
                                              e->route.comm, MPI_STATUS_IGNORE));
    }
}

char *execution_address(const struct execution *e, int buffer, int64_t offset)
{
    return e->staging.buffers[buffer] +
           (e->reduces ? offset / e->element.unit * e->element.extent : offset);
}

/* Return the length of the next chunk of a message or copy: whole elements. */
int64_t execution_chunk(const struct execution *e, int64_t length)
{
    const int64_t most =
        e->reduces ? CHUNK / e->element.unit * e->element.unit + e->element.unit : CHUNK;

    return length < most ? length : most;
}

int execution_elements(const struct execution *e, int64_t bytes)
{
    return (int)(e->reduces ? bytes / e->element.unit : bytes);
}
