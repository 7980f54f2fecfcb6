/* Operands of reductions, in the type's memory layout including gaps.
 *
 * Count, type and operation are equal on all members. PMPI_Reduce_local receives the user's
 * handles.
 */
#include "base/pmpi.h"
#include "executor/execution.h"
#include "executor/private_comm.h"

enum { ALIGNMENT = 16 };

static int64_t stride_of(const struct execution *e)
{
    return e->element.extent < 0 ? -e->element.extent : e->element.extent;
}

/* Return the memory for operands of so many bytes, which is equal on all members. */
int64_t reduce_buffer_bytes(const struct execution *e, int64_t bytes)
{
    return bytes > 0 ? (bytes / e->element.unit + 1) * stride_of(e) + e->element.span + ALIGNMENT
                     : 0;
}

char *reduce_buffer_scratch(const struct execution *e, int64_t bytes)
{
    const int64_t elements = bytes / e->element.unit + 1;
    char *const m = scratch_allocate(e->call->comm, reduce_buffer_bytes(e, bytes));
    /* Element i is at i * extent, and its data begins at `lower`. With a negative extent the
     * elements run downwards. Elements must be aligned as well as in the user's memory. */
    const int64_t before =
        (elements - 1) * (e->element.extent < 0 ? stride_of(e) : 0) - e->element.lower;

    return m + before + ((-before) % ALIGNMENT + ALIGNMENT) % ALIGNMENT;
}

/* Return the bytes that a rank contributes, or below receives of the result. */
int64_t reduce_buffer_sent_bytes(const struct execution *e)
{
    const struct problem *const p = &e->problem;

    if (e->call->operation == OP_reduce_scatter_block)
        return p->bytes * p->size;
    return p->counts != NULL ? problem_sum(p) : p->bytes;
}

int64_t reduce_buffer_received_bytes(const struct execution *e)
{
    const struct problem *const p = &e->problem;

    return p->counts != NULL ? p->counts[e->call->comm->rank] : p->bytes;
}

/* Copy operands. With `device`, one side is in device memory, so only the library may copy. */
void reduce_buffer_copy(struct execution *e, char *to, char *from, int64_t whole, bool device)
{
    for (int64_t done = 0, part; done < whole; done += part) {
        const int64_t at = done / e->element.unit * e->element.extent;

        part = execution_chunk(e, whole - done);
        const int count = execution_elements(e, part);

        if (device)
            execution_self_send(e, &(struct block_place){from + at, count, e->element.type},
                                &(struct block_place){to + at, count, e->element.type});
        else
            execution_copy(e, to + at, from + at, part);
    }
}

struct reduce_buffers reduce_buffer_of(const struct execution *e)
{
    const struct arguments *const a = e->arguments;
    const int operation = e->call->operation;
    struct reduce_buffers v = {.out = execution_writable(a->recvbuf),
                               .receives =
                                   operation != OP_reduce || e->call->root == e->call->comm->rank};

    /* Equal addresses count as MPI_IN_PLACE, because some libraries accept them. */
    v.in_place = v.receives && (argument_in_place(a, a->sendbuf) || a->sendbuf == a->recvbuf);
    v.in = v.in_place ? v.out : execution_writable(a->sendbuf);
    v.from_device = device_holds((void *)((uintptr_t)v.in + (uintptr_t)e->element.lower));
    v.to_device =
        v.receives && device_holds((void *)((uintptr_t)v.out + (uintptr_t)e->element.lower));
    /* The result's position differs from the position of its operands. */
    v.moves =
        v.in_place && (operation == OP_reduce_scatter || operation == OP_reduce_scatter_block);
    v.packs_in = v.moves || (v.from_device && !v.in_place);
    return v;
}
