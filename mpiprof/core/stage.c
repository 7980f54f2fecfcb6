/* The user's buffers as a schedule sees them: IN, OUT and SCRATCH, packed, in rank order.
 *
 * Data movement sees bytes: a buffer of a predefined type whose blocks follow each other is used as
 * it is, everything else is packed into and unpacked from memory of ours. Reductions see the
 * type's own layout: count, type and operation are the same on all members, and PMPI_Reduce_local
 * gets the user's own handles. What is said here of a type is known to this rank alone, and
 * decides nothing but how this rank moves its own data.
 */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "switch.h"

enum { ALIGNMENT = 16 };

/* The thread's memory, by use; grows, is kept for the next call, and freed with the thread. */
static _Thread_local struct {
    char *bytes;
    int64_t room;
} memory[4];
static _Thread_local struct {
    int64_t *counts;
    int room;
} kept[2];
static pthread_key_t key;

static void release(void *unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++)
        free(memory[i].bytes);
    for (int i = 0; i < 2; i++)
        free(kept[i].counts);
    memset(memory, 0, sizeof memory);
    memset(kept, 0, sizeof kept);
    execute_release();
}

void stage_start(void)
{
    pthread_key_create(&key, release);
}

void *scratch_take(int which, int64_t bytes)
{
    if (bytes > memory[which].room || memory[which].bytes == NULL) {
        free(memory[which].bytes);
        memory[which].bytes = malloc((size_t)bytes + 64);
        memory[which].room = memory[which].bytes != NULL ? bytes + 64 : 0;
        pthread_setspecific(key, memory);
    }
    return memory[which].bytes;
}

/* Counts in bytes, by rank; the thread's, like the rest. */
int64_t *scratch_counts(int which, int members)
{
    if (members > kept[which].room || kept[which].counts == NULL) {
        free(kept[which].counts);
        kept[which].counts = malloc(sizeof(int64_t) * (size_t)(members + 1));
        kept[which].room = kept[which].counts != NULL ? members : 0;
        pthread_setspecific(key, memory);
    }
    return kept[which].counts;
}

struct type_facts type_facts(MPI_Datatype type)
{
    struct type_facts f = {0};
    MPI_Count size = 0;
    MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    int integers, addresses, types, combiner = -1;

    pmpi.Type_size_x(type, &size);
    pmpi.Type_get_extent(type, &lower, &extent);
    pmpi.Type_get_true_extent(type, &true_lower, &true_extent);
    pmpi.Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    f.size = size;
    f.lower = lower;
    f.extent = extent;
    f.true_lower = true_lower;
    f.true_extent = true_extent;
    f.named = combiner == MPI_COMBINER_NAMED;
    return f;
}

/* ---- blocks: the user's places of a side's data, block after block */

struct blocks {
    char *base;
    int count;    /* of blocks */
    bool v, wide; /* counts and displacements by block; displacements in bytes (alltoallw) */
    bool device;  /* the library alone may touch it */
    const struct side *side;
};

static int64_t block_count(const struct arguments *a, const struct blocks *b, int i)
{
    return b->v ? argument_count(a, b->side->counts, (size_t)i)
                : argument_count(a, b->side->count, 0);
}

static char *block_at(const struct arguments *a, const struct blocks *b, int i, int64_t extent)
{
    const int64_t elements = b->v ? argument_displacement(a, b->side->displs, (size_t)i)
                                  : i * argument_count(a, b->side->count, 0);

    return b->base + elements * extent;
}

/* Whether the user's buffer is already what the schedule wants. */
static bool direct(const struct arguments *a, const struct blocks *b, const struct type_facts *f)
{
    int64_t next = 0;

    if (!f->named || f->size != f->extent || f->lower != 0 || b->device)
        return false;
    for (int i = 0; b->v && i < b->count; i++) {
        const int64_t count = block_count(a, b, i);

        if (count > 0 && argument_displacement(a, b->side->displs, (size_t)i) != next)
            return false;
        next += count;
    }
    return true;
}

/* Elements into bytes, or back. MPI_Pack of older MPICHs refuses MPI_BOTTOM, which is no address to
 * it, and need not know devices: a message to oneself does the same. */
static int pass_elements(const struct execution *e, char *at, int count, MPI_Datatype type,
                         char *packed, int bytes, bool pack, bool device)
{
    int position = 0, rank = 0;

    if (at != NULL && !device)
        return pack ? pmpi.Pack(at, count, type, packed, bytes, &position, e->comm)
                    : pmpi.Unpack(packed, bytes, &position, at, count, type, e->comm);
    pmpi.Comm_rank(e->comm, &rank);
    return pack ? pmpi.Sendrecv(at, count, type, rank, e->tag, packed, bytes, MPI_BYTE, rank,
                                e->tag, e->comm, MPI_STATUS_IGNORE)
                : pmpi.Sendrecv(packed, bytes, MPI_BYTE, rank, e->tag, at, count, type, rank,
                                e->tag, e->comm, MPI_STATUS_IGNORE);
}

/* Packs (or unpacks) block i; in parts, as PMPI_Pack counts in int. Returns its bytes. */
static int64_t move_block(struct execution *e, const struct blocks *b, int i, char *packed,
                          bool pack)
{
    const MPI_Datatype type = argument_type(e->arguments, b->side->type, 0);
    const struct type_facts f = type_facts(type);
    const int64_t most = f.size > 0 ? INT_MAX / 2 / f.size + 1 : 0;
    const int64_t count = block_count(e->arguments, b, i);
    char *at = block_at(e->arguments, b, i, f.extent);

    for (int64_t done = 0, part; f.size > 0 && done < count; done += part) {
        part = count - done < most ? count - done : most;
        const int bytes = (int)(part * f.size);

        execution_note(e, pass_elements(e, at, (int)part, type, packed, bytes, pack, b->device));
        packed += bytes;
        at += part * f.extent;
    }
    return count * f.size;
}

static void move_blocks(struct execution *e, const struct blocks *b, char *packed, bool pack)
{
    for (int i = 0; i < b->count; i++)
        packed += move_block(e, b, i, packed, pack);
}

static int64_t packed_bytes(const struct execution *e, const struct blocks *b)
{
    const struct type_facts f = type_facts(argument_type(e->arguments, b->side->type, 0));
    int64_t elements = 0;

    for (int i = 0; i < b->count; i++)
        elements += block_count(e->arguments, b, i);
    return elements * f.size;
}

/* Makes one of the schedule's buffers from the user's. True: it is memory of ours, still empty. */
static bool stage(struct execution *e, int which, const struct blocks *b, bool copied)
{
    const struct type_facts f = type_facts(argument_type(e->arguments, b->side->type, 0));

    if (!copied && direct(e->arguments, b, &f)) {
        e->buffers[which] = b->base;
        return false;
    }
    e->buffers[which] = scratch_take(which, packed_bytes(e, b));
    if (e->buffers[which] == NULL)
        abort(); /* the other members are under way */
    return true;
}

/* ---- which blocks an operation has */

struct sides {
    struct blocks in, out;
    bool has_in, has_out, out_loads, in_is_part, out_is_part, in_is_out;
};

static char *mutable(const void *p)
{
    return (char *)(uintptr_t)p;
}

static struct sides sides_of(const struct execution *e)
{
    const struct arguments *const a = e->arguments;
    const struct communicator *const k = e->call->comm;
    const int all = k->size, there = k->inter ? k->remote_size : k->size;
    const bool root = !k->inter && e->call->root == k->rank;
    const bool v_in = a->send.counts != NULL, v_out = a->recv.counts != NULL;
    struct sides s = {.has_in = true,
                      .has_out = true,
                      .in = {.base = mutable(a->sendbuf), .count = 1, .side = &a->send},
                      .out = {.base = mutable(a->recvbuf), .count = 1, .side = &a->recv}};

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
        s.out.v = v_out;
        s.in_is_part = root && argument_in_place(a, a->sendbuf);
        break;
    case OP_scatter:
    case OP_scatterv:
        s.has_in = root;
        s.in.count = all;
        s.in.v = v_in;
        s.out_is_part = root && argument_in_place(a, a->recvbuf);
        break;
    case OP_allgather:
    case OP_allgatherv:
        s.out.count = there;
        s.out.v = v_out;
        s.in_is_part = argument_in_place(a, a->sendbuf);
        break;
    default: /* alltoall, alltoallv */
        s.in.count = s.out.count = there;
        s.in.v = v_in;
        s.out.v = v_out;
        s.in_is_out = argument_in_place(a, a->sendbuf);
        break;
    }
    s.in.device = s.has_in && !s.in_is_part && !s.in_is_out && device_holds(s.in.base);
    s.out.device = s.has_out && !s.out_is_part && device_holds(s.out.base);
    return s;
}

/* Where a rank's own block is within all blocks. */
static int64_t own_offset(const struct execution *e)
{
    int64_t offset = 0;

    if (e->problem.counts == NULL)
        return e->call->comm->rank * e->problem.bytes;
    for (int i = 0; i < e->call->comm->rank; i++)
        offset += e->problem.counts[i];
    return offset;
}

static void stage_in(struct execution *e, const struct blocks *b, bool copied)
{
    if (stage(e, SCRATCH_IN, b, copied))
        move_blocks(e, b, e->buffers[SCRATCH_IN], true);
}

static void stage_out(struct execution *e, const struct sides *s, int64_t own)
{
    const struct blocks *const b = &s->out;

    if (!stage(e, SCRATCH_OUT, b, false))
        return;
    e->unpack = !s->out_loads; /* else nothing is received: a root's buffer is left alone */
    if (s->out_loads)
        move_blocks(e, b, e->buffers[SCRATCH_OUT], true);
    if (s->in_is_part)
        move_block(e, b, e->call->comm->rank, e->buffers[SCRATCH_OUT] + own, true);
}

/* Of a root whose two sizes differ: what it sends itself stays out of the schedule, which gets in
 * its place what the own block held before, or memory that nobody reads. */
static void stage_apart(struct execution *e, const struct sides *s)
{
    const int rank = e->call->comm->rank;
    const bool gathers = s->in.count == 1;
    struct own_sides own;

    own_sides(e->call, e->arguments, &own);
    const int64_t bytes = own_block_bytes(gathers ? &own.received : &own.sent);
    const int which = gathers ? SCRATCH_IN : SCRATCH_OUT;
    char *const instead = scratch_take(which, bytes);

    if (instead == NULL)
        abort(); /* the other members are under way */
    if (gathers)
        move_block(e, &s->out, rank, instead, true);
    e->buffers[which] = instead;
}

/* A part of OUT has not come: the user's own stays there. */
void stage_lacks(struct execution *e, char *at, int64_t length)
{
    const struct sides s = sides_of(e);

    if (!e->unpack)
        return;
    if (e->before == NULL) {
        char *const room = scratch_take(SCRATCH_BEFORE, packed_bytes(e, &s.out));

        if (room != NULL)
            move_blocks(e, &s.out, room, true);
        e->before = room;
    }
    if (e->before != NULL)
        memcpy(at, e->before + (at - e->buffers[SCRATCH_OUT]), (size_t)length);
    else
        execution_note(e, MPI_ERR_OTHER);
}

static void stage_movement(struct execution *e)
{
    const struct sides s = sides_of(e);
    const int64_t own = s.in_is_part || s.out_is_part ? own_offset(e) : 0;
    const bool apart = e->own_differs && e->call->root != ROOT_NONE;

    if (s.in_is_out)
        stage_in(e, &s.out, true); /* what is overwritten must be sent first */
    else if (s.has_in && !s.in_is_part && !(apart && s.in.count == 1))
        stage_in(e, &s.in, false);
    if (s.has_out && !s.out_is_part && !(apart && s.out.count == 1))
        stage_out(e, &s, own);
    if (apart)
        stage_apart(e, &s);
    if (s.in_is_part)
        e->buffers[SCRATCH_IN] = e->buffers[SCRATCH_OUT] + own;
    if (s.out_is_part)
        e->buffers[SCRATCH_OUT] = e->buffers[SCRATCH_IN] + own;
    e->joined = s.in_is_part || s.out_is_part;
    e->in_at = s.in_is_part ? own : -own;
}

/* ---- reductions: the type's own layout */

static char *typed_scratch(const struct execution *e, int which, int64_t bytes)
{
    const struct type_facts f = type_facts(e->type);
    const int64_t elements = bytes / e->unit + 1;
    const int64_t stride = f.extent < 0 ? -f.extent : f.extent;
    char *const m = scratch_take(which, elements * stride + f.true_extent + ALIGNMENT);

    if (m == NULL)
        abort(); /* the other members are under way */
    /* Element i is at i * extent, its data from true_lower on; a negative extent runs downwards.
     * Elements are as well aligned as they may be in the user's memory. */
    const int64_t before = (elements - 1) * (f.extent < 0 ? stride : 0) - f.true_lower;

    return m + before + ((-before) % ALIGNMENT + ALIGNMENT) % ALIGNMENT;
}

/* Bytes of the vector that a rank gives, and of what it gets of the result. */
static int64_t vector_given(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    int64_t whole = 0;

    if (e->call->operation == OP_reduce_scatter_block)
        return p->bytes * p->size;
    if (p->counts == NULL)
        return p->bytes;
    for (int i = 0; i < p->size; i++)
        whole += p->counts[i];
    return whole;
}

static int64_t vector_got(const struct execution *e)
{
    const struct problem *const p = &e->problem;

    return p->counts != NULL ? p->counts[e->call->comm->rank] : p->bytes;
}

/* `device`: one of the two is on one, and the library alone may copy. */
static void vector_copy(struct execution *e, char *to, char *from, int64_t whole, bool device)
{
    const int64_t most = (INT64_C(1) << 28) / e->unit * e->unit + e->unit;
    int rank = 0;

    pmpi.Comm_rank(e->comm, &rank);
    for (int64_t done = 0; done < whole; done += most) {
        const int64_t at = done / e->unit * e->extent;
        const int64_t part = whole - done < most ? whole - done : most;
        const int count = (int)(part / e->unit);

        if (device)
            execution_note(e, pmpi.Sendrecv(from + at, count, e->type, rank, e->tag, to + at, count,
                                            e->type, rank, e->tag, e->comm, MPI_STATUS_IGNORE));
        else
            execution_copy(e, to + at, from + at, part);
    }
}

static void stage_reduction(struct execution *e)
{
    const struct arguments *const a = e->arguments;
    const int operation = e->call->operation;
    const bool gets = operation != OP_reduce || e->call->root == e->call->comm->rank;
    const bool in_place = /* without the word: some libraries accept that */
        gets && (argument_in_place(a, a->sendbuf) || a->sendbuf == a->recvbuf);
    char *const out = mutable(a->recvbuf), *const in = in_place ? out : mutable(a->sendbuf);
    const bool from_device = device_holds((void *)((uintptr_t)in + (uintptr_t)e->lower));
    /* The share that is written is not where its operands are. */
    const bool kept =
        in_place && (operation == OP_reduce_scatter || operation == OP_reduce_scatter_block);

    e->to_device = gets && device_holds((void *)((uintptr_t)out + (uintptr_t)e->lower));
    e->joined = in_place && !kept;
    e->buffers[SCRATCH_OUT] = !gets          ? NULL
                              : e->to_device ? typed_scratch(e, SCRATCH_OUT, vector_got(e))
                                             : out;
    e->buffers[SCRATCH_IN] = e->joined             ? e->buffers[SCRATCH_OUT]
                             : from_device || kept ? typed_scratch(e, SCRATCH_IN, vector_given(e))
                                                   : in;
    if (from_device || kept)
        vector_copy(e, e->buffers[SCRATCH_IN], in, vector_given(e), from_device);
}

void stage_begin(struct execution *e)
{
    const int64_t bytes = e->algorithm->scratch != NULL ? e->algorithm->scratch(&e->context) : 0;

    if (e->reduces)
        stage_reduction(e);
    else
        stage_movement(e);
    if (bytes > 0)
        e->buffers[SCRATCH_OWN] =
            e->reduces ? typed_scratch(e, SCRATCH_OWN, bytes) : scratch_take(SCRATCH_OWN, bytes);
    if (bytes > 0 && e->buffers[SCRATCH_OWN] == NULL)
        abort();
}

/* Gives the user what was staged; of a call that was called off, what was overwritten. */
void stage_end(struct execution *e)
{
    const bool movement = !e->reduces && e->call->operation != OP_barrier;
    const struct sides s = movement ? sides_of(e) : (struct sides){0};

    if (e->called_off) {
        if (s.in_is_out)
            move_blocks(e, &s.out, e->buffers[SCRATCH_IN], false);
        return;
    }
    if (e->unpack)
        move_blocks(e, &s.out, e->buffers[SCRATCH_OUT], false);
    if (e->to_device)
        vector_copy(e, mutable(e->arguments->recvbuf), e->buffers[SCRATCH_OUT], vector_got(e),
                    true);
    if (e->own_differs && e->call->root != ROOT_NONE) {
        struct own_sides own;

        own_sides(e->call, e->arguments, &own);
        execution_note(e, own_block_pass(e->call->operation, &own));
    }
}
