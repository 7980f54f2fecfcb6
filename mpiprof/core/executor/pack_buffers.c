/* The user's buffers in the layout that a schedule requires: IN, OUT and SCRATCH, packed, in rank
 * order.
 *
 * A buffer of a predefined type with contiguous blocks is used directly. All other buffers are
 * packed into scratch memory and unpacked at the end. gatherv, scatterv and alltoallv send whole
 * blocks in the user's layout, because no member can compute what another one must pack. Reductions
 * use the type's memory layout (reduce_buffers.c).
 *
 * Facts about types are known only to this rank, and only affect how it moves its data. All members
 * know two bounds: the need of an algorithm, and that packed data is at most all data of the
 * operation (scratch.c).
 */
#include <string.h>

#include "base/base.h"
#include "base/mpi_types.h"
#include "executor/execution.h"
#include "executor/private_comm.h"

enum { IN, OUT, SCRATCH_BUFFER };

/* Return the packed size. A broadcast packs at most what is received. */
static int64_t packed_bytes(const struct execution *e, const struct blocks *b)
{
    const int64_t bytes = block_layout_packed_bytes(e, b);

    return e->algorithm->opening != NULL && e->size.received < bytes ? e->size.received : bytes;
}

/* Set up one of the schedule's buffers. Returns true if it is in scratch memory and still empty. */
static bool buffer_stage(struct execution *e, int which, const struct blocks *b, bool copied)
{
    struct communicator *const k = e->call->comm;

    e->staging.buffers[which] = b->base;
    if (!copied && block_layout_is_direct(e, b))
        return false;
    if (e->staging.by_block) {
        e->staging.blocks[which] = *b;
        return false;
    }
    const int64_t bytes = packed_bytes(e, b);
    const bool fits = scratch_rounded(bytes) <= scratch_of(k)->size - scratch_of(k)->used;

    /* If it does not fit, this rank sends itself more than it expects, so the data is not sent. */
    e->staging.buffers[which] = fits ? scratch_allocate(k, bytes) : scratch_of(k)->bytes;
    if (!fits)
        execution_note_error(e, MPI_ERR_TRUNCATE);
    return fits;
}

/* Return the location of a step's data; for a block, the user's buffer, count and type. */
struct block_place pack_buffer_place(const struct execution *e, const struct step *s, int buffer,
                                     int64_t offset, int block)
{
    const struct blocks *const b = buffer < SCRATCH_BUFFER ? &e->staging.blocks[buffer] : NULL;

    if (b == NULL || b->side == NULL || s->length == 0)
        return (struct block_place){e->staging.buffers[buffer] + offset, s->length, MPI_BYTE};
    return block_layout_place(e->arguments, b, b->count == 1 ? 0 : block);
}

/* ---- blocks of an operation */

struct sides {
    struct blocks in, out;
    /* has_...: has a buffer of its own. in_is_copy: IN is a copy of OUT, whose data is sent before
     * it is overwritten. */
    bool has_in, has_out, out_loads, in_is_part, out_is_part, in_is_copy;
};

/* A root with two different sizes takes part as if in place; pack_buffer_end copies its block. */
static struct sides sides_of(const struct execution *e)
{
    const struct arguments *const a = e->arguments;
    const struct communicator *const k = e->call->comm;
    const int all = k->size, there = k->inter ? k->remote_size : k->size;
    const bool root = !k->inter && e->call->root == k->rank;
    struct sides s = {
        .has_in = true,
        .has_out = true,
        .in = {.base = execution_writable(a->sendbuf), .count = 1, .side = &a->send},
        .out = {.base = execution_writable(a->recvbuf), .count = 1, .side = &a->recv}};

    switch (e->call->operation) {
    case OP_barrier: s.has_in = s.has_out = false; break;
    case OP_bcast:
        s.has_in = false;
        s.out = s.in;
        s.out_loads = root;
        break;
    case OP_gather:
    case OP_gatherv:
        s.has_out = root;
        s.out.count = all;
        s.in_is_part = root && (e->staging.self_sizes_differ || argument_in_place(a, a->sendbuf));
        break;
    case OP_scatter:
    case OP_scatterv:
        s.has_in = root;
        s.in.count = all;
        s.out_is_part = root && (e->staging.self_sizes_differ || argument_in_place(a, a->recvbuf));
        break;
    case OP_allgather:
    case OP_allgatherv:
        s.out.count = there;
        s.in_is_part = argument_in_place(a, a->sendbuf);
        break;
    default: /* alltoall, alltoallv */
        s.in.count = s.out.count = there;
        s.in_is_copy = argument_in_place(a, a->sendbuf);
        break;
    }
    s.has_in &= !s.in_is_part;
    s.has_out &= !s.out_is_part;
    s.out.device = s.has_out && device_holds(s.out.base);
    if (s.in_is_copy)
        s.in = s.out;
    else
        s.in.device = s.has_in && device_holds(s.in.base);
    return s;
}

static int64_t own_offset(const struct execution *e)
{
    int64_t offset = 0;

    if (e->problem.counts == NULL)
        return e->call->comm->rank * e->problem.bytes;
    for (int i = 0; i < e->call->comm->rank; i++)
        offset += e->problem.counts[i];
    return offset;
}

/* Record that the rest of a block of OUT, from `at` on, was not received and stays the user's. */
void pack_buffer_note_missing(struct execution *e, const char *at)
{
    if (!e->staging.unpack)
        return;
    struct missing_tail *const made = memory_allocate(sizeof *made);

    if (made == NULL) {
        execution_note_error(e, MPI_ERR_NO_MEM);
        return;
    }
    *made = (struct missing_tail){.next = e->staging.missing, .at = at};
    e->staging.missing = made;
}

static void stage_movement(struct execution *e)
{
    const struct sides s = sides_of(e);
    const int64_t own = s.in_is_part || s.out_is_part ? own_offset(e) : 0;

    if (s.has_in && buffer_stage(e, IN, &s.in, s.in_is_copy))
        block_layout_move(e, &s.in, e->staging.buffers[IN], true);
    if (s.has_out && buffer_stage(e, OUT, &s.out, false)) {
        /* for the root of a broadcast false: it receives nothing and keeps its buffer */
        e->staging.unpack = !s.out_loads;
        if (s.out_loads)
            block_layout_move(e, &s.out, e->staging.buffers[OUT], true);
        if (s.in_is_part)
            block_layout_move_one(e, &s.out, e->call->comm->rank, e->staging.buffers[OUT] + own,
                                  true);
    }
    if (s.in_is_part)
        e->staging.buffers[IN] = e->staging.buffers[OUT] + own;
    if (s.out_is_part)
        e->staging.buffers[OUT] = e->staging.buffers[IN] + own;
    e->staging.in_place = s.in_is_part || s.out_is_part;
    e->staging.in_at = s.in_is_part ? own : -own;
}

static void stage_reduction(struct execution *e)
{
    const struct reduce_buffers v = reduce_buffer_of(e);

    e->staging.to_device = v.to_device;
    e->staging.in_place = v.in_place && !v.moves;
    e->staging.buffers[OUT] = v.receives ? v.out : NULL;
    if (v.to_device)
        e->staging.buffers[OUT] = reduce_buffer_scratch(e, reduce_buffer_received_bytes(e));
    e->staging.buffers[IN] = e->staging.in_place ? e->staging.buffers[OUT] : v.in;
    if (v.packs_in)
        e->staging.buffers[IN] = reduce_buffer_scratch(e, reduce_buffer_sent_bytes(e));
    if (v.from_device || v.moves)
        reduce_buffer_copy(e, e->staging.buffers[IN], v.in, reduce_buffer_sent_bytes(e),
                           v.from_device);
}

/* ---- memory */

static int64_t maximum(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t scratch_bytes_of(const struct execution *e, int64_t bytes)
{
    return scratch_rounded(e->reduces ? reduce_buffer_bytes(e, bytes) : bytes);
}

/* Return the need of an algorithm, equally on all members. */
int64_t pack_buffer_scratch_bytes(const struct algorithm *a, const struct execution *e)
{
    return scratch_bytes_of(e, schedule_scratch_of(a, &e->problem));
}

/* Return an upper bound on the data that any member packs or copies. */
static int64_t most_packed_bytes(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    int64_t all = maximum(p->size * p->bytes, p->remote_size * p->remote_bytes);
    int64_t each = maximum(p->bytes, p->remote_bytes);

    if (e->call->operation == OP_bcast)
        return scratch_rounded(p->bytes);
    if (e->call->operation == OP_alltoall)
        return 2 * scratch_rounded(all);
    if (p->counts != NULL)
        each = problem_largest(p);
    if (e->reduces)
        all = reduce_buffer_sent_bytes(e);
    else if (p->counts != NULL)
        all = problem_sum(p);
    return scratch_bytes_of(e, all) + scratch_bytes_of(e, each);
}

static int64_t own_packed_bytes(const struct execution *e)
{
    int64_t bytes = 0;

    if (e->reduces) {
        const struct reduce_buffers v = reduce_buffer_of(e);

        bytes += v.to_device ? scratch_bytes_of(e, reduce_buffer_received_bytes(e)) : 0;
        bytes += v.packs_in ? scratch_bytes_of(e, reduce_buffer_sent_bytes(e)) : 0;
        return bytes;
    }
    const struct sides s = sides_of(e);

    if (s.has_in && (s.in_is_copy || !block_layout_is_direct(e, &s.in)))
        bytes += scratch_rounded(block_layout_packed_bytes(e, &s.in));
    if (s.has_out && !block_layout_is_direct(e, &s.out))
        bytes += scratch_rounded(packed_bytes(e, &s.out));
    return bytes;
}

/* Return true if all members have the memory for a call. Collective, before the first message. */
bool pack_buffer_has_memory(struct execution *e)
{
    struct communicator *const k = e->call->comm;
    const int operation = e->call->operation;
    const int64_t sure = pack_buffer_scratch_bytes(e->algorithm, e);
    int64_t needed = sure;
    bool has;

    e->staging.by_block =
        operation == OP_gatherv || operation == OP_scatterv ||
        (operation == OP_alltoallv && !argument_in_place(e->arguments, e->arguments->sendbuf));
    if (e->staging.by_block || operation == OP_barrier) {
        has = scratch_ensure(k, sure);
    } else if (problem_is_known(e) && scratch_ensure(k, sure + most_packed_bytes(e))) {
        has = true;
    } else {
        needed = sure + own_packed_bytes(e);
        has = scratch_agree(k, &needed);
    }
    if (!has)
        scratch_note_omitted(k, e->algorithm, needed);
    return has;
}

/* ---- one call */

void pack_buffer_begin(struct execution *e)
{
    const int64_t bytes = schedule_scratch_of(e->algorithm, &e->problem);

    if (bytes > 0)
        e->staging.buffers[SCRATCH_BUFFER] =
            e->reduces ? reduce_buffer_scratch(e, bytes) : scratch_allocate(e->call->comm, bytes);
    if (e->reduces)
        stage_reduction(e);
    else
        stage_movement(e);
}

/* Return the packed data to the user, or after a cancelled call the overwritten data. */
void pack_buffer_end(struct execution *e)
{
    const bool movement = !e->reduces && e->call->operation != OP_barrier;
    const struct sides s = movement ? sides_of(e) : (struct sides){0};

    if (e->called_off && s.in_is_copy)
        block_layout_move(e, &s.out, e->staging.buffers[IN], false);
    if (!e->called_off && e->staging.unpack)
        block_layout_move(e, &s.out, e->staging.buffers[OUT], false);
    while (e->staging.missing != NULL) {
        struct missing_tail *const l = e->staging.missing;

        e->staging.missing = l->next;
        memory_free(l);
    }
    if (e->called_off)
        return;
    if (e->staging.to_device)
        reduce_buffer_copy(e, execution_writable(e->arguments->recvbuf), e->staging.buffers[OUT],
                           reduce_buffer_received_bytes(e), true);
    if (e->staging.self_sizes_differ && e->call->root != ROOT_NONE) {
        struct self_message_sides own;

        self_message_sides(e->call, e->arguments, &own);
        execution_note_error(e, argument_check_send_to_self(e->call->operation, &own));
    }
}
