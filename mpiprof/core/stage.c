/* The user's buffers as a schedule sees them: IN, OUT and SCRATCH, packed, in rank order.
 *
 * Data movement sees bytes: a buffer of a predefined type whose blocks follow each other is used as
 * it is, everything else is packed into and unpacked from memory of ours. Where messages are whole
 * blocks from their place to their place (gatherv, scatterv, alltoallv, whose sizes not all know,
 * so that nobody knows what another one must pack), they are sent as the user describes them, and
 * no memory is needed. Reductions see the type's own layout: count, type and operation are the same
 * on all members, and PMPI_Reduce_local gets the user's own handles.
 *
 * What is said here of a type is known to this rank alone, and decides nothing but how this rank
 * moves its own data. What all members know are bounds: what an algorithm takes for itself, and
 * that what is packed is no more than all of the operation's data (scratch.c).
 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "memory.h"
#include "switch.h"

enum { IN, OUT, OWN, ALIGNMENT = 16 };

/* Counts of the thread's call; grow, are kept for the next one, and freed with the thread. */
static _Thread_local struct {
    int64_t *counts;
    int room;
} kept[2];
static _Thread_local bool keeps;
static pthread_key_t key;

static void release(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++)
        memory_free(kept[i].counts);
    memset(kept, 0, sizeof kept);
    keeps = false;
    execute_release();
}

void stage_start(void)
{
    pthread_key_create(&key, release);
}

/* What the thread keeps is freed with it. */
static void thread_keeps(void)
{
    if (!keeps)
        pthread_setspecific(key, kept);
    keeps = true;
}

/* Counts in bytes, by rank. */
int64_t *counts_take(int which, int members)
{
    if (members > kept[which].room || kept[which].counts == NULL) {
        memory_free(kept[which].counts);
        kept[which].counts = memory_get(sizeof(int64_t) * (size_t)(members + 1));
        kept[which].room = kept[which].counts != NULL ? members : 0;
        thread_keeps();
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
 * it, need not know devices, and ends with an element: a message to oneself does the same. */
static int pass_elements(const struct execution *e, char *at, int count, MPI_Datatype type,
                         char *packed, int bytes, bool pack, bool as_message)
{
    int position = 0, rank = 0;

    if (at != NULL && !as_message)
        return pack ? pmpi.Pack(at, count, type, packed, bytes, &position, e->comm)
                    : pmpi.Unpack(packed, bytes, &position, at, count, type, e->comm);
    pmpi.Comm_rank(e->comm, &rank);
    return pack ? pmpi.Sendrecv(at, count, type, rank, e->tag, packed, bytes, MPI_BYTE, rank,
                                e->tag, e->comm, MPI_STATUS_IGNORE)
                : pmpi.Sendrecv(packed, bytes, MPI_BYTE, rank, e->tag, at, count, type, rank,
                                e->tag, e->comm, MPI_STATUS_IGNORE);
}

/* How many bytes of a packed block have come. */
static int64_t come_of(const struct execution *e, const char *packed, int64_t bytes)
{
    for (const struct lack *l = e->lacks; l != NULL; l = l->next)
        if (l->at >= packed && l->at < packed + bytes)
            return l->at - packed;
    return bytes;
}

/* Packs (or unpacks) block i; in parts, as PMPI_Pack counts in int. Returns its bytes. */
static int64_t move_block(struct execution *e, const struct blocks *b, int i, char *packed,
                          bool pack)
{
    const MPI_Datatype type = argument_type(e->arguments, b->side->type, 0);
    const struct type_facts f = type_facts(type);
    const int64_t most = f.size > 0 ? INT_MAX / 2 / f.size + 1 : 0;
    const int64_t count = block_count(e->arguments, b, i);
    int64_t left = pack ? count * f.size : come_of(e, packed, count * f.size);
    char *at = block_at(e->arguments, b, i, f.extent);

    for (int64_t done = 0, part; left > 0; done += part) {
        part = count - done < most ? count - done : most;
        const bool whole = part * f.size <= left;
        const int bytes = (int)(whole ? part * f.size : left);

        execution_note(
            e, pass_elements(e, at, (int)part, type, packed, bytes, pack, b->device || !whole));
        packed += bytes;
        left -= bytes;
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

static bool is_direct(const struct execution *e, const struct blocks *b)
{
    const struct type_facts f = type_facts(argument_type(e->arguments, b->side->type, 0));

    return direct(e->arguments, b, &f);
}

/* Makes one of the schedule's buffers from the user's. True: it is memory of ours, still empty. */
static bool stage(struct execution *e, int which, const struct blocks *b, bool copied)
{
    struct communicator *const k = e->call->comm;

    e->buffers[which] = b->base;
    if (!copied && is_direct(e, b))
        return false;
    if (e->by_block) {
        e->blocks[which] = *b;
        return false;
    }
    const int64_t bytes = packed_bytes(e, b);
    const bool fits = scratch_piece(bytes) <= k->scratch.room - k->scratch.taken;

    /* Else what this rank sends to itself is longer than what it expects: it is not sent. */
    e->buffers[which] = fits ? scratch_take(k, bytes) : k->scratch.bytes;
    if (!fits)
        execution_note(e, MPI_ERR_TRUNCATE);
    return fits;
}

/* Where a step's data are; those of a block are the user's, of a type of its own. */
struct place stage_place(const struct execution *e, const struct step *s, int buffer,
                         int64_t offset, int block)
{
    const struct blocks *const b = buffer < OWN ? &e->blocks[buffer] : NULL;

    if (b == NULL || b->side == NULL || s->length == 0)
        return (struct place){e->buffers[buffer] + offset, s->length, MPI_BYTE};
    const MPI_Datatype type = argument_type(e->arguments, b->side->type, 0);

    block = b->count == 1 ? 0 : block;
    return (struct place){block_at(e->arguments, b, block, type_facts(type).extent),
                          block_count(e->arguments, b, block), type};
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

/* A root whose two sizes differ takes part as if in place: what it sends to itself stays out of the
 * schedule (stage_end). */
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
        s.in_is_part = root && (e->own_differs || argument_in_place(a, a->sendbuf));
        break;
    case OP_scatter:
    case OP_scatterv:
        s.has_in = root;
        s.in.count = all;
        s.in.v = v_in;
        s.out_is_part = root && (e->own_differs || argument_in_place(a, a->recvbuf));
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
    if (stage(e, IN, b, copied))
        move_blocks(e, b, e->buffers[IN], true);
}

static void stage_out(struct execution *e, const struct sides *s, int64_t own)
{
    const struct blocks *const b = &s->out;

    if (!stage(e, OUT, b, false))
        return;
    e->unpack = !s->out_loads; /* else nothing is received: a root's buffer is left alone */
    if (s->out_loads)
        move_blocks(e, b, e->buffers[OUT], true);
    if (s->in_is_part)
        move_block(e, b, e->call->comm->rank, e->buffers[OUT] + own, true);
}

/* A part of OUT has not come, from `at` to the end of its block: the user's own stays there. */
void stage_lacks(struct execution *e, const char *at)
{
    if (!e->unpack)
        return;
    struct lack *const made = memory_get(sizeof *made);

    if (made == NULL) {
        execution_note(e, MPI_ERR_NO_MEM);
        return;
    }
    *made = (struct lack){.next = e->lacks, .at = at};
    e->lacks = made;
}

static void lacks_free(struct execution *e)
{
    while (e->lacks != NULL) {
        struct lack *const l = e->lacks;

        e->lacks = l->next;
        memory_free(l);
    }
}

static void stage_movement(struct execution *e)
{
    const struct sides s = sides_of(e);
    const int64_t own = s.in_is_part || s.out_is_part ? own_offset(e) : 0;

    if (s.in_is_out)
        stage_in(e, &s.out, true); /* what is overwritten must be sent first */
    else if (s.has_in && !s.in_is_part)
        stage_in(e, &s.in, false);
    if (s.has_out && !s.out_is_part)
        stage_out(e, &s, own);
    if (s.in_is_part)
        e->buffers[IN] = e->buffers[OUT] + own;
    if (s.out_is_part)
        e->buffers[OUT] = e->buffers[IN] + own;
    e->joined = s.in_is_part || s.out_is_part;
    e->in_at = s.in_is_part ? own : -own;
}

/* ---- reductions: the type's own layout */

static int64_t stride_of(const struct execution *e)
{
    return e->extent < 0 ? -e->extent : e->extent;
}

/* What so many bytes of operands take, the same on all members. */
static int64_t typed_bytes(const struct execution *e, int64_t bytes)
{
    return bytes > 0 ? (bytes / e->unit + 1) * stride_of(e) + e->span + ALIGNMENT : 0;
}

static char *typed_scratch(const struct execution *e, int64_t bytes)
{
    const int64_t elements = bytes / e->unit + 1;
    char *const m = scratch_take(e->call->comm, typed_bytes(e, bytes));
    /* Element i is at i * extent, its data from `lower` on; a negative extent runs downwards.
     * Elements are as well aligned as they may be in the user's memory. */
    const int64_t before = (elements - 1) * (e->extent < 0 ? stride_of(e) : 0) - e->lower;

    return m + before + ((-before) % ALIGNMENT + ALIGNMENT) % ALIGNMENT;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of all ranks' parts together, and of the largest. */
static int64_t counts_sum(const struct problem *p)
{
    int64_t whole = 0;

    for (int i = 0; i < p->size; i++)
        whole += p->counts[i];
    return whole;
}

static int64_t counts_most(const struct problem *p)
{
    int64_t most = 0;

    for (int i = 0; i < p->size; i++)
        most = larger(most, p->counts[i]);
    return most;
}

/* Bytes of the vector that a rank gives, and of what it gets of the result. */
static int64_t vector_given(const struct execution *e)
{
    const struct problem *const p = &e->problem;

    if (e->call->operation == OP_reduce_scatter_block)
        return p->bytes * p->size;
    return p->counts != NULL ? counts_sum(p) : p->bytes;
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

/* A rank's vectors, and which of them are copied: that is known to this rank alone, as of
 * reduce_scatter in place, which is so on any of the members. */
struct vectors {
    char *in, *out;
    bool gets, in_place, from_device, to_device, kept;
};

static struct vectors vectors_of(const struct execution *e)
{
    const struct arguments *const a = e->arguments;
    const int operation = e->call->operation;
    struct vectors v = {.out = mutable(a->recvbuf),
                        .gets = operation != OP_reduce || e->call->root == e->call->comm->rank};

    /* Without the word, too: some libraries accept that. */
    v.in_place = v.gets && (argument_in_place(a, a->sendbuf) || a->sendbuf == a->recvbuf);
    v.in = v.in_place ? v.out : mutable(a->sendbuf);
    v.from_device = device_holds((void *)((uintptr_t)v.in + (uintptr_t)e->lower));
    v.to_device = v.gets && device_holds((void *)((uintptr_t)v.out + (uintptr_t)e->lower));
    /* The share that is written is not where its operands are. */
    v.kept = v.in_place && (operation == OP_reduce_scatter || operation == OP_reduce_scatter_block);
    return v;
}

static void stage_reduction(struct execution *e)
{
    const struct vectors v = vectors_of(e);

    e->to_device = v.to_device;
    e->joined = v.in_place && !v.kept;
    e->buffers[OUT] = !v.gets ? NULL : v.to_device ? typed_scratch(e, vector_got(e)) : v.out;
    e->buffers[IN] = e->joined                 ? e->buffers[OUT]
                     : v.from_device || v.kept ? typed_scratch(e, vector_given(e))
                                               : v.in;
    if (v.from_device || v.kept)
        vector_copy(e, e->buffers[IN], v.in, vector_given(e), v.from_device);
}

/* ---- memory */

static int64_t piece_of(const struct execution *e, int64_t bytes)
{
    return scratch_piece(e->reduces ? typed_bytes(e, bytes) : bytes);
}

/* What an algorithm needs in any case; the same on all members. */
int64_t stage_sure(const struct algorithm *a, const struct execution *e)
{
    return piece_of(e, schedule_scratch_of(a, &e->problem));
}

/* What no member packs or copies more than, where all know the sizes. */
static int64_t stage_most(const struct execution *e)
{
    const struct problem *const p = &e->problem;
    int64_t all = larger(p->size * p->bytes, p->remote_size * p->remote_bytes);
    int64_t each = larger(p->bytes, p->remote_bytes);

    if (e->call->operation == OP_bcast)
        return scratch_piece(p->bytes);
    if (e->call->operation == OP_alltoall)
        return 2 * scratch_piece(all);
    if (p->counts != NULL)
        each = counts_most(p);
    if (e->reduces)
        all = vector_given(e);
    else if (p->counts != NULL)
        all = counts_sum(p);
    return piece_of(e, all) + piece_of(e, each);
}

/* What this rank packs, or copies. */
static int64_t stage_own(const struct execution *e)
{
    int64_t bytes = 0;

    if (e->reduces) {
        const struct vectors v = vectors_of(e);

        bytes += v.to_device ? piece_of(e, vector_got(e)) : 0;
        bytes += (v.from_device && !v.in_place) || v.kept ? piece_of(e, vector_given(e)) : 0;
        return bytes;
    }
    const struct sides s = sides_of(e);

    if (s.in_is_out)
        bytes += scratch_piece(packed_bytes(e, &s.out));
    else if (s.has_in && !s.in_is_part && !is_direct(e, &s.in))
        bytes += scratch_piece(packed_bytes(e, &s.in));
    if (s.has_out && !s.out_is_part && !is_direct(e, &s.out))
        bytes += scratch_piece(packed_bytes(e, &s.out));
    return bytes;
}

/* Whether all members have the memory for a call; called by all of them, before anything is sent.
 * The algorithm is a candidate. */
bool stage_has_memory(struct execution *e)
{
    struct communicator *const k = e->call->comm;
    const int operation = e->call->operation;
    const int64_t sure = stage_sure(e->algorithm, e);
    int64_t needed = sure;
    bool has;

    e->by_block =
        operation == OP_gatherv || operation == OP_scatterv ||
        (operation == OP_alltoallv && !argument_in_place(e->arguments, e->arguments->sendbuf));
    if (e->by_block || operation == OP_barrier) {
        has = scratch_had(k, sure);
    } else if (problem_is_known(e) && scratch_had(k, sure + stage_most(e))) {
        has = true;
    } else {
        needed = sure + stage_own(e);
        has = scratch_asked(k, &needed);
    }
    if (!has)
        scratch_left_out(k, e->algorithm, needed);
    return has;
}

/* ---- a call */

void stage_begin(struct execution *e)
{
    const int64_t bytes = schedule_scratch_of(e->algorithm, &e->problem);

    thread_keeps();
    if (bytes > 0)
        e->buffers[OWN] = e->reduces ? typed_scratch(e, bytes) : scratch_take(e->call->comm, bytes);
    if (e->reduces)
        stage_reduction(e);
    else
        stage_movement(e);
}

/* Gives the user what was staged; of a call that was called off, what was overwritten. */
void stage_end(struct execution *e)
{
    const bool movement = !e->reduces && e->call->operation != OP_barrier;
    const struct sides s = movement ? sides_of(e) : (struct sides){0};

    if (e->called_off && s.in_is_out)
        move_blocks(e, &s.out, e->buffers[IN], false);
    if (!e->called_off && e->unpack)
        move_blocks(e, &s.out, e->buffers[OUT], false);
    lacks_free(e);
    if (e->called_off)
        return;
    if (e->to_device)
        vector_copy(e, mutable(e->arguments->recvbuf), e->buffers[OUT], vector_got(e), true);
    if (e->own_differs && e->call->root != ROOT_NONE) {
        struct own_sides own;

        own_sides(e->call, e->arguments, &own);
        execution_note(e, own_block_pass(e->call->operation, &own));
    }
}
