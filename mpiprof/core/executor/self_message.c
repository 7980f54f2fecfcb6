/* Messages that a rank sends to itself in one call, so that it knows both sides. */
#include "base/mpi_types.h"
#include "executor/execution.h"
#include "record/communicator.h"

static struct self_block block_of(const struct arguments *a, const struct side *s,
                                  const void *buffer, int i)
{
    struct self_block b = {.buffer = (char *)(uintptr_t)buffer,
                           .type = argument_type(a, s->type, 0)};

    b.count = argument_has_counts(s) ? argument_count(a, s->counts, (size_t)i)
                                     : argument_count(a, s->count, 0);
    b.offset =
        argument_has_counts(s) ? argument_displacement(a, s->displs, (size_t)i) : i * b.count;
    return b;
}

int64_t self_message_block_bytes(const struct self_block *b)
{
    return b->count * type_properties(b->type).size;
}

char *self_message_block_at(const struct self_block *b)
{
    return b->buffer + b->offset * type_properties(b->type).extent;
}

/* Return false if this rank does not have both sides. */
bool self_message_sides(const struct call *c, const struct arguments *a,
                        struct self_message_sides *own)
{
    const struct communicator *const k = c->comm;
    const int operation = c->operation;
    const bool gathers = operation == OP_gather || operation == OP_gatherv;
    const bool scatters = operation == OP_scatter || operation == OP_scatterv;
    const bool all = operation == OP_alltoall || operation == OP_alltoallv;

    if (k->inter || argument_in_place(a, a->sendbuf) || argument_in_place(a, a->recvbuf) ||
        !(all || ((gathers || scatters) && c->root == k->rank) || operation == OP_allgather ||
          operation == OP_allgatherv))
        return false;
    own->sent = block_of(a, &a->send, a->sendbuf, all || scatters ? k->rank : 0);
    own->received = block_of(a, &a->recv, a->recvbuf, scatters ? 0 : k->rank);
    return true;
}

bool self_message_sizes_differ(const struct call *c, const struct arguments *a)
{
    struct self_message_sides own;

    return self_message_sides(c, a, &own) &&
           !(own.sent.type == own.received.type && own.sent.count == own.received.count) &&
           self_message_block_bytes(&own.sent) != self_message_block_bytes(&own.received);
}
