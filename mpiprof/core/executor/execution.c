/* Operations on the state of a call that runs on a schedule. */
#include <string.h>

#include "base/pmpi.h"
#include "executor/execution.h"

#ifndef CHUNK
#define CHUNK (INT64_C(1) << 28) /* bytes; for an operand, bytes of its type signature */
#endif

void execution_note_error(struct execution *e, int error)
{
    if (e->error == MPI_SUCCESS)
        e->error = error;
}

/* Copy elements by a message to this rank, where only the library may copy. */
void execution_self_send(struct execution *e, const struct block_place *from,
                         const struct block_place *to)
{
    int rank = 0;

    pmpi.Comm_rank(e->route.comm, &rank);
    execution_note_error(e, pmpi.Sendrecv(from->at, (int)from->count, from->type, rank,
                                          e->route.tag, to->at, (int)to->count, to->type, rank,
                                          e->route.tag, e->route.comm, MPI_STATUS_IGNORE));
}

/* Copy at most one chunk. Gaps between and inside elements are not touched. */
void execution_copy(struct execution *e, char *to, char *from, int64_t length)
{
    const struct element *const element = &e->element;
    const int count = execution_elements(e, length);

    if (to == from)
        return;
    if (element->solid && element->unit == element->extent)
        memmove(to + element->lower, from + element->lower, (size_t)length);
    else if (element->solid)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * element->extent + element->lower,
                   from + i * element->extent + element->lower, (size_t)element->unit);
    else
        execution_self_send(e, &(struct block_place){from, count, element->type},
                            &(struct block_place){to, count, element->type});
}

char *execution_address(const struct execution *e, int buffer, int64_t offset)
{
    return e->staging.buffers[buffer] + offset / e->element.unit * e->element.extent;
}

/* Return the length of the next chunk of a message or copy: whole elements. */
int64_t execution_chunk(const struct execution *e, int64_t length)
{
    const int64_t unit = e->element.unit, most = (CHUNK + unit - 1) / unit * unit;

    return length < most ? length : most;
}

int execution_elements(const struct execution *e, int64_t bytes)
{
    return (int)(bytes / e->element.unit);
}
