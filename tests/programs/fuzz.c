/* Random collectives by random arguments, every result checked.
 *
 *     fuzz SEED CALLS THREADS
 *
 * All ranks draw from one series a thread, so that they make the same calls: operation, elements (0
 * up to 1 MB in all), layouts, root, MPI_IN_PLACE, blocking or not; communicators that are
 * duplicated, split, bridged and freed; calls that all members make wrongly, which must come back
 * with an error. What only one rank draws is when it is late and how its own buffers are laid out.
 * Each thread has communicators of its own. An element is an int, alone or with gaps on either side
 * of it that nobody may touch; reductions also take matrices, whose product does not commute.
 * Ends with 1 and says where, if a result is wrong. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_COMMS = 8, BYTES = 1 << 20, GAP = 0x5a5a5a5a, MATRIX = 4, LAYOUTS = 3 };

struct comm {
    MPI_Comm comm;
    int rank, size, remote; /* remote: size of the other group, 0: none */
    int bias;               /* tells the groups of an inter-communicator apart */
};

struct thread {
    uint64_t shared, own; /* series: of all ranks, of this one */
    struct comm comms[MOST_COMMS];
    int count, number;
    long calls;
};

static long seed, wanted;
static MPI_Datatype layouts[LAYOUTS], matrix;
static const int extents[LAYOUTS] = {1, 2, 3}, places[LAYOUTS] = {0, 1, 1}; /* in ints */
static MPI_Op product;
static atomic_int wrong;

/* ---- series */

static uint32_t draw_from(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

static uint32_t draw(struct thread *t, uint32_t below)
{
    return draw_from(&t->shared, below);
}

/* Mostly few: uniform in the number of digits. */
static int draw_count(struct thread *t, int most)
{
    int bits = 0;

    while (most >> bits > 1)
        bits++;
    const int count = (int)(draw(t, 1u << draw(t, (uint32_t)bits + 2)));

    return count < most ? count : most;
}

static void complain(const struct thread *t, const char *what, int at)
{
    if (atomic_fetch_add(&wrong, 1) < 5)
        fprintf(stderr, "seed %ld thread %d call %ld: %s is wrong at %d\n", seed, t->number,
                t->calls, what, at);
}

/* ---- buffers */

struct buffer {
    int *memory, elements, layout;
    void *start; /* what MPI gets */
};

static struct buffer buffer_make(int elements, int layout)
{
    struct buffer b = {.elements = elements, .layout = layout};
    const size_t ints = ((size_t)elements + 1) * (size_t)extents[layout] + 1;

    b.memory = malloc(ints * sizeof(int));
    if (b.memory == NULL)
        abort();
    for (size_t i = 0; i < ints; i++)
        b.memory[i] = GAP;
    b.start = b.memory;
    return b;
}

static int *element(const struct buffer *b, int i)
{
    return b->memory + (size_t)i * (size_t)extents[b->layout] + places[b->layout];
}

static int value(const struct thread *t, int rank, int i)
{
    return (int)((uint32_t)(rank * 7919 + i * 31) ^ (uint32_t)t->calls) & 0xffffff;
}

static void fill(const struct thread *t, const struct buffer *b, int first, int count, int rank,
                 int from)
{
    for (int i = 0; i < count; i++)
        *element(b, first + i) = value(t, rank, from + i);
}

static void check(const struct thread *t, const char *what, const struct buffer *b, int first,
                  int count, int rank, int from)
{
    for (int i = 0; i < count; i++)
        if (*element(b, first + i) != value(t, rank, from + i)) {
            complain(t, what, first + i);
            return;
        }
}

static void buffer_end(const struct thread *t, const char *what, struct buffer *b)
{
    for (int i = 0; b->layout > 0 && i < b->elements; i++)
        for (int j = 0; j < extents[b->layout]; j++)
            if (j != places[b->layout] && b->memory[i * extents[b->layout] + j] != GAP) {
                complain(t, what, i);
                i = b->elements;
                break;
            }
    free(b->memory);
}

static int own_layout(struct thread *t)
{
    return (int)draw_from(&t->own, LAYOUTS);
}

/* ---- data movement: what each rank contributes is known to all */

static void wait_for(MPI_Request *r)
{
    int done = 0;

    while (!done)
        MPI_Test(r, &done, MPI_STATUS_IGNORE);
}

static void broadcast(struct thread *t, struct comm *c)
{
    const int root = (int)draw(t, (uint32_t)c->size), n = draw_count(t, BYTES / 4);
    const int later = draw(t, 8) == 0;
    struct buffer b = buffer_make(n, own_layout(t));
    MPI_Request r;

    if (c->rank == root)
        fill(t, &b, 0, n, root, 0);
    if (later) {
        MPI_Ibcast(b.start, n, layouts[b.layout], root, c->comm, &r);
        wait_for(&r);
    } else {
        MPI_Bcast(b.start, n, layouts[b.layout], root, c->comm);
    }
    check(t, "bcast", &b, 0, n, root, 0);
    buffer_end(t, "bcast's gap", &b);
}

/* Shares of all ranks: equal, or (v) some of them 0; displacements with holes between. */
struct shares {
    int counts[64], displs[64], total;
};

static struct shares shares_draw(struct thread *t, int ranks, int v)
{
    struct shares s = {.total = 0};
    const int most = BYTES / 4 / (ranks > 0 ? ranks : 1), each = draw_count(t, most);

    for (int i = 0; i < ranks; i++) {
        s.displs[i] = s.total;
        s.counts[i] = !v ? each : draw(t, 3) == 0 ? 0 : draw_count(t, each + 1);
        s.total += s.counts[i] + (v && draw(t, 4) == 0);
    }
    return s;
}

static void gather(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0, root = (int)draw(t, (uint32_t)c->size);
    const int in_place = draw(t, 3) == 0 && c->rank == root;
    const struct shares s = shares_draw(t, c->size, v);
    const int mine = s.counts[c->rank];
    struct buffer in = buffer_make(mine, own_layout(t));
    struct buffer out = buffer_make(s.total, own_layout(t));
    const void *const given = in_place ? MPI_IN_PLACE : in.start;

    fill(t, in_place ? &out : &in, in_place ? s.displs[c->rank] : 0, mine, c->rank, 0);
    if (v)
        MPI_Gatherv(given, mine, layouts[in.layout], out.start, s.counts, s.displs,
                    layouts[out.layout], root, c->comm);
    else
        MPI_Gather(given, mine, layouts[in.layout], out.start, mine, layouts[out.layout], root,
                   c->comm);
    for (int i = 0; c->rank == root && i < c->size; i++)
        check(t, v ? "gatherv" : "gather", &out, s.displs[i], s.counts[i], i, 0);
    buffer_end(t, "gather's gap", &in);
    buffer_end(t, "gather's gap", &out);
}

static void scatter(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0, root = (int)draw(t, (uint32_t)c->size);
    const int in_place = draw(t, 3) == 0 && c->rank == root;
    const struct shares s = shares_draw(t, c->size, v);
    const int mine = s.counts[c->rank];
    struct buffer in = buffer_make(s.total, own_layout(t));
    struct buffer out = buffer_make(mine, own_layout(t));
    void *const taken = in_place ? MPI_IN_PLACE : out.start;

    for (int i = 0; c->rank == root && i < c->size; i++)
        fill(t, &in, s.displs[i], s.counts[i], root, i);
    if (v)
        MPI_Scatterv(in.start, s.counts, s.displs, layouts[in.layout], taken, mine,
                     layouts[out.layout], root, c->comm);
    else
        MPI_Scatter(in.start, mine, layouts[in.layout], taken, mine, layouts[out.layout], root,
                    c->comm);
    if (!in_place)
        check(t, v ? "scatterv" : "scatter", &out, 0, mine, root, c->rank);
    buffer_end(t, "scatter's gap", &in);
    buffer_end(t, "scatter's gap", &out);
}

/* Also between groups: the shares are then the other group's, and each rank knows its own. */
static void allgather(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0, others = c->remote > 0 ? c->remote : c->size;
    const int in_place = draw(t, 3) == 0 && c->remote == 0;
    /* One list for both groups, in the order of the first: both draw both. */
    const int ranks = c->size + c->remote;
    const struct shares all = shares_draw(t, ranks, v);
    const int own_first = c->remote > 0 && c->bias ? c->remote : 0;
    const int first = c->remote > 0 && !c->bias ? c->size : 0;
    const int mine = all.counts[own_first + c->rank], base = all.displs[first];
    int displs[64], end = first + others < ranks ? all.displs[first + others] : all.total;

    for (int i = 0; i < others; i++)
        displs[i] = all.displs[first + i] - base;
    struct buffer in = buffer_make(mine, own_layout(t));
    /* MPICH 5.0 cuts messages by the extent, and fails where that differs among ranks. */
    struct buffer out = buffer_make(end - base, (int)draw(t, LAYOUTS));
    const void *const given = in_place ? MPI_IN_PLACE : in.start;

    fill(t, in_place ? &out : &in, in_place ? displs[c->rank] : 0, mine, own_first + c->rank, 0);
    if (v)
        MPI_Allgatherv(given, mine, layouts[in.layout], out.start, all.counts + first, displs,
                       layouts[out.layout], c->comm);
    else
        MPI_Allgather(given, mine, layouts[in.layout], out.start, all.counts[first],
                      layouts[out.layout], c->comm);
    for (int i = 0; i < others; i++)
        check(t, v ? "allgatherv" : "allgather", &out, displs[i], all.counts[first + i], first + i,
              0);
    buffer_end(t, "allgather's gap", &in);
    buffer_end(t, "allgather's gap", &out);
}

/* What rank i sends to rank j: the same number for both. */
static int pair_count(const struct thread *t, int i, int j, int most)
{
    return most > 0 ? (int)((uint32_t)(i * 31 + j * 17 + (int)t->calls) % (uint32_t)most) : 0;
}

static void alltoall(struct thread *t, struct comm *c)
{
    const int v = draw(t, 2) != 0 && c->remote == 0, n = c->remote > 0 ? c->remote : c->size;
    const int each = draw_count(t, BYTES / 8 / (c->size + c->remote)); /* alike in both groups */
    const int layout = own_layout(t), other = own_layout(t);
    int counts[2][64], displs[2][64], totals[2] = {0, 0};

    for (int i = 0; i < n; i++)
        for (int side = 0; side < 2; side++) {
            counts[side][i] = !v          ? each
                              : side == 0 ? pair_count(t, c->rank, i, each)
                                          : pair_count(t, i, c->rank, each);
            displs[side][i] = totals[side];
            totals[side] += counts[side][i];
        }
    struct buffer in = buffer_make(totals[0], layout), out = buffer_make(totals[1], other);
    const int me = c->rank + 64 * c->bias, you = 64 * !c->bias * (c->remote > 0);

    for (int i = 0; i < n; i++)
        fill(t, &in, displs[0][i], counts[0][i], me, i);
    if (v)
        MPI_Alltoallv(in.start, counts[0], displs[0], layouts[layout], out.start, counts[1],
                      displs[1], layouts[other], c->comm);
    else
        MPI_Alltoall(in.start, each, layouts[layout], out.start, each, layouts[other], c->comm);
    for (int i = 0; i < n; i++)
        check(t, v ? "alltoallv" : "alltoall", &out, displs[1][i], counts[1][i], i + you, c->rank);
    buffer_end(t, "alltoall's gap", &in);
    buffer_end(t, "alltoall's gap", &out);
}

/* ---- reductions */

static void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const uint32_t *a = in;
    uint32_t *b = inout;

    (void)type;
    for (int i = 0; i < *count; i++, a += MATRIX, b += MATRIX) {
        const uint32_t c[MATRIX] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                                    a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof c);
    }
}

enum kind { SUM, MAXIMUM, PRODUCT, KINDS };

/* What ranks 0 to `last` make of element i: one int, or a matrix. */
static void expected(const struct thread *t, enum kind kind, int last, int i, uint32_t *result)
{
    int one = 1;

    for (int rank = 0; rank <= last; rank++) {
        uint32_t next[MATRIX];

        for (int j = 0; j < MATRIX; j++)
            next[j] = (uint32_t)value(t, rank, kind == PRODUCT ? MATRIX * i + j : i);
        if (rank == 0) {
            memcpy(result, next, sizeof next);
        } else if (kind == SUM) {
            result[0] += next[0];
        } else if (kind == MAXIMUM) {
            result[0] = next[0] > result[0] ? next[0] : result[0];
        } else {
            multiply(result, next, &one, NULL);
            memcpy(result, next, sizeof next);
        }
    }
}

static void check_reduced(const struct thread *t, const char *what, enum kind kind, int last,
                          const uint32_t *out, int first, int n)
{
    const int width = kind == PRODUCT ? MATRIX : 1;
    uint32_t right[MATRIX];

    for (int i = 0; i < n; i += 1 + n / 50) { /* the first, and some others */
        expected(t, kind, last, first + i, right);
        if (memcmp(right, out + i * width, sizeof *out * (size_t)width) != 0) {
            complain(t, what, i);
            return;
        }
    }
}

static void reduction(struct thread *t, struct comm *c)
{
    static const char *const names[] = {
        "allreduce", "reduce", "scan", "reduce_scatter_block", "reduce_scatter", "iallreduce"};
    const int which = (int)draw(t, 6), root = (int)draw(t, (uint32_t)c->size);
    const enum kind kind = (enum kind)draw(t, KINDS);
    const int width = kind == PRODUCT ? MATRIX : 1, scatters = which == 3 || which == 4;
    const struct shares s = shares_draw(t, c->size, which == 4);
    const int n = scatters ? s.total : draw_count(t, BYTES / 4 / width);
    const int in_place = draw(t, 3) == 0 && !scatters;
    const size_t ints = ((size_t)n + 1) * (size_t)width;
    uint32_t *const in = malloc(ints * sizeof *in), *const out = malloc(ints * sizeof *out);
    const MPI_Datatype type = kind == PRODUCT ? matrix : MPI_UNSIGNED;
    const MPI_Op op = kind == PRODUCT ? product : kind == SUM ? MPI_SUM : MPI_MAX;
    int last = c->size - 1, first = 0, got = n;
    MPI_Request r;

    for (int i = 0; i < n * width; i++)
        in[i] = out[i] = (uint32_t)value(t, c->rank, i);
    const void *const given = in_place && (which != 1 || c->rank == root) ? MPI_IN_PLACE : in;

    switch (which) {
    case 0: MPI_Allreduce(given, out, n, type, op, c->comm); break;
    case 1:
        MPI_Reduce(given, out, n, type, op, root, c->comm);
        got = c->rank == root ? n : 0;
        break;
    case 2:
        MPI_Scan(given, out, n, type, op, c->comm);
        last = c->rank;
        break;
    case 3:
        got = s.counts[0];
        first = got * c->rank;
        MPI_Reduce_scatter_block(in, out, got, type, op, c->comm);
        break;
    case 4:
        got = s.counts[c->rank];
        for (int i = 0; i < c->rank; i++)
            first += s.counts[i];
        MPI_Reduce_scatter(in, out, s.counts, type, op, c->comm);
        break;
    default:
        MPI_Iallreduce(given, out, n, type, op, c->comm, &r);
        wait_for(&r);
        break;
    }
    check_reduced(t, names[which], kind, last, out, first, got);
    free(in);
    free(out);
}

/* ---- wrong calls, by all members alike */

static void mistake(struct thread *t, struct comm *c)
{
    int data[4] = {1, 2, 3, 4}, error = MPI_SUCCESS;

    switch (draw(t, 5)) {
    case 0: error = MPI_Bcast(data, 1, MPI_INT, c->size + 3, c->comm); break;
    case 1: error = MPI_Bcast(data, -1, MPI_INT, 0, c->comm); break;
    case 2: error = MPI_Gather(data, 1, MPI_INT, data + 1, 1, MPI_INT, -7, c->comm); break;
    case 3: error = MPI_Allreduce(data, data + 1, 1, MPI_INT, MPI_OP_NULL, c->comm); break;
    default: error = MPI_Allgather(data, -1, MPI_INT, data, 1, MPI_INT, c->comm); break;
    }
    if (error == MPI_SUCCESS)
        complain(t, "a mistake's code", 0);
}

/* ---- communicators */

static void comm_add(struct thread *t, MPI_Comm made, int bias)
{
    struct comm *const c = &t->comms[t->count++];
    int inter = 0;

    *c = (struct comm){.comm = made, .bias = bias};
    MPI_Comm_rank(made, &c->rank);
    MPI_Comm_size(made, &c->size);
    MPI_Comm_test_inter(made, &inter);
    if (inter)
        MPI_Comm_remote_size(made, &c->remote);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
}

/* The list is as long on all ranks, and each place has the same kind of communicator. */
static void comm_make(struct thread *t)
{
    struct comm *const base = &t->comms[0];
    const int how = (int)draw(t, 4), from = (int)draw(t, (uint32_t)t->count);
    MPI_Comm made = MPI_COMM_NULL, half;
    const int second = base->rank >= (base->size + 1) / 2;

    if (t->count == MOST_COMMS)
        return;
    if (how == 0) {
        MPI_Comm_dup(t->comms[from].comm, &made);
        comm_add(t, made, t->comms[from].bias);
    } else if (how == 1) {
        MPI_Comm_split(base->comm, base->rank % 2, draw(t, 2) ? -base->rank : 0, &made);
        comm_add(t, made, 0);
    } else if (how == 2 && base->size > 1) {
        MPI_Comm_split(base->comm, second, 0, &half);
        MPI_Intercomm_create(half, 0, base->comm, second ? 0 : (base->size + 1) / 2, 77, &made);
        comm_add(t, made, second);
        MPI_Comm_free(&half);
    } else {
        const int dims[] = {base->size}, periods[] = {1};

        MPI_Cart_create(base->comm, 1, dims, periods, 0, &made);
        comm_add(t, made, 0);
    }
}

static void comm_drop(struct thread *t)
{
    if (t->count < 2)
        return;
    const int which = 1 + (int)draw(t, (uint32_t)t->count - 1);

    MPI_Comm_free(&t->comms[which].comm);
    t->comms[which] = t->comms[--t->count];
}

/* ---- turns */

static void call(struct thread *t, struct comm *c, uint32_t what)
{
    if (what < 6 && c->remote == 0)
        mistake(t, c);
    else if (what < 15)
        MPI_Barrier(c->comm);
    else if (c->remote > 0)
        (what % 3 == 0 ? alltoall : allgather)(t, c);
    else if (what < 35)
        broadcast(t, c);
    else if (what < 45)
        gather(t, c);
    else if (what < 55)
        scatter(t, c);
    else if (what < 67)
        allgather(t, c);
    else if (what < 78)
        alltoall(t, c);
    else
        reduction(t, c);
}

static void turn(struct thread *t)
{
    struct comm *const c = &t->comms[draw(t, (uint32_t)t->count)];
    const uint32_t what = draw(t, 100);

    t->calls++;
    if (draw_from(&t->own, 1000) == 0)
        usleep(draw_from(&t->own, 1000));
    if (what < 2) {
        comm_make(t);
    } else if (what < 4) {
        comm_drop(t);
    } else { /* the parts of a split communicator are of different sizes, and draw differently */
        const uint64_t shared = t->shared;

        call(t, c, what);
        t->shared = shared;
    }
}

static void *run(void *given)
{
    struct thread *const t = given;

    while (t->calls < wanted)
        turn(t);
    while (t->count > 0)
        MPI_Comm_free(&t->comms[--t->count].comm);
    return NULL;
}

int main(int argc, char **argv)
{
    const int threads = argc > 3 ? atoi(argv[3]) : 1;
    int provided, rank, all = 0;
    pthread_t made[16];
    static struct thread state[16];

    seed = argc > 1 ? atol(argv[1]) : 1;
    wanted = (argc > 2 ? atol(argv[2]) : 1000) / threads; /* of each thread */
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    layouts[0] = MPI_INT;
    for (int i = 1; i < LAYOUTS; i++) {
        const int length = 1;
        const MPI_Aint place = (MPI_Aint)sizeof(int) * places[i];
        MPI_Datatype moved;

        MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &moved);
        MPI_Type_create_resized(moved, 0, (MPI_Aint)sizeof(int) * extents[i], &layouts[i]);
        MPI_Type_commit(&layouts[i]);
        MPI_Type_free(&moved);
    }
    MPI_Type_contiguous(MATRIX, MPI_UNSIGNED, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
    for (int i = 0; i < threads; i++) {
        MPI_Comm base;

        state[i].shared = (uint64_t)seed * 1000 + (uint64_t)i;
        state[i].own = state[i].shared * 77 + (uint64_t)rank;
        state[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &base);
        comm_add(&state[i], base, 0);
    }
    for (int i = 1; i < threads; i++)
        pthread_create(&made[i], NULL, run, &state[i]);
    run(&state[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(made[i], NULL);
    int mine = atomic_load(&wrong);

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("seed %ld: %ld calls, %d wrong\n", seed, wanted * threads, all);
    MPI_Op_free(&product);
    MPI_Type_free(&matrix);
    for (int i = 1; i < LAYOUTS; i++)
        MPI_Type_free(&layouts[i]);
    MPI_Finalize();
    return all > 0;
}
