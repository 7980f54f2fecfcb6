/* Calls random collectives and checks every byte of every buffer, gaps and sends included.
 *
 *   execute_cases SEED CASES FILE [threads=N] [strict] [only=NAME] [first=N] [verbose]
 *
 * All ranks draw the same operations, sizes, roots and communicators from the seed; where the
 * standard lets them differ each draws its own datatypes for one signature. `strict`: nothing runs
 * on the library's own algorithms, so also what those are known to get wrong is called. FILE is
 * shared memory, by which barriers are checked. Compiled with -DLARGE the calls are those with
 * large counts. Ends with 1 after the first wrong byte, which it names with its case.
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef LARGE
typedef MPI_Count count_t;
typedef MPI_Aint place_t;
#define CALL(name) MPI_##name##_c
#define CREATE_OP MPI_Op_create_c
#else
typedef int count_t;
typedef int place_t;
#define CALL(name) MPI_##name
#define CREATE_OP MPI_Op_create
#endif

enum { MOST = 32, MOST_ENTRIES = 24, MARGIN = 64, MOST_THREADS = 8 };

/* ---- numbers that look random */

struct random {
    uint64_t state;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;

    h = (h ^ (h >> 29)) * 0x94d049bb133111ebu;
    return h ^ (h >> 32);
}

static int draw(struct random *r, int below)
{
    r->state = mix(r->state, 1);
    return (int)((r->state >> 11) % (uint64_t)below);
}

/* ---- datatypes: periods of base elements at chosen places */

enum base { CHAR, INT, DOUBLE, CHAR_DOUBLE, DOUBLE_INT, BASES };
static const struct {
    int parts, sizes[2], places[2], period;
} bases[BASES] = {{1, {1}, {0}, 1},
                  {1, {4}, {0}, 4},
                  {1, {8}, {0}, 8},
                  {2, {1, 8}, {0, 8}, 16},
                  {2, {8, 4}, {0, 8}, 16}};

enum style { PLAIN, CONTIGUOUS, GAPS, REVERSED, RESIZED, LOWER, NEGATIVE, INTERLEAVED, STYLES };
static const char *const style_names[] = {"plain",   "contiguous", "gaps",     "reversed",
                                          "resized", "lower",      "negative", "interleaved"};

struct layout {
    MPI_Datatype type;
    enum base base;
    enum style style;
    int units, entries; /* periods and base elements in an item */
    long at[MOST_ENTRIES], extent, low, high;
    int size[MOST_ENTRIES];
};

static MPI_Datatype part_type(enum base base, int part)
{
    const int size = bases[base].sizes[part];

    return size == 1 ? MPI_CHAR : size == 4 ? MPI_INT : MPI_DOUBLE;
}

static long place_of(const struct layout *l, int unit, int width)
{
    const long period = bases[l->base].period;

    switch (l->style) {
    case GAPS: return 2 * unit * period;
    case REVERSED: return (3 * (l->units - 1 - unit) + 1) * period;
    case LOWER: return 2 * (unit - l->units) * period;
    case INTERLEAVED: return (long)unit * width * period;
    default: return unit * period;
    }
}

static void layout_make(struct layout *l, enum base base, enum style style, int units, int width)
{
    const long period = bases[base].period;
    MPI_Datatype types[MOST_ENTRIES], made;
    MPI_Aint places[MOST_ENTRIES];
    int ones[MOST_ENTRIES];
    const long extents[STYLES] = {period,
                                  units * period,
                                  (2 * units - 1) * period,
                                  3 * units * period,
                                  (units + 2) * period,
                                  2 * units * period,
                                  -(units + 1) * period,
                                  period};

    *l = (struct layout){.base = base, .style = style, .units = style == PLAIN ? 1 : units};
    l->entries = l->units * bases[base].parts;
    l->extent = extents[style];
    for (int i = 0; i < l->entries; i++) {
        const int part = i % bases[base].parts;

        types[i] = part_type(base, part);
        l->size[i] = bases[base].sizes[part];
        l->at[i] = place_of(l, i / bases[base].parts, width) + bases[base].places[part];
        places[i] = l->at[i];
        ones[i] = 1;
        l->low = l->at[i] < l->low ? l->at[i] : l->low;
        l->high = l->at[i] + l->size[i] > l->high ? l->at[i] + l->size[i] : l->high;
    }
    if (style == PLAIN && base != CHAR_DOUBLE) {
        l->type = base == DOUBLE_INT ? MPI_DOUBLE_INT : types[0];
        return;
    }
    if (style == GAPS && bases[base].parts == 1)
        MPI_Type_vector(units, 1, 2, types[0], &made);
    else
        MPI_Type_create_struct(l->entries, ones, places, types, &made);
    MPI_Type_create_resized(made, style == LOWER ? places[0] : 0, l->extent, &l->type);
    MPI_Type_free(&made);
    MPI_Type_commit(&l->type);
}

static void layout_free(struct layout *l)
{
    if (l->style != PLAIN || l->base == CHAR_DOUBLE)
        MPI_Type_free(&l->type);
}

/* ---- a case */

struct communicators {
    MPI_Comm world, reversed, half, inter;
    bool first; /* of the inter-communicator's groups */
};

struct test {
    struct random shared, own; /* what all ranks draw alike, and what each draws for itself */
    uint64_t key;
    MPI_Comm comm;
    int me, size, there; /* members of the own group, and of the one that data comes from */
    bool inter, first, in_place, mixed, plain;
    int root, number, thread;
    enum base base;
    int multiple;
    const char *operation, *detail;
    atomic_long *arrivals;
};

static int world_rank, world_size;
static bool strict, verbose;
static const char *only;
static _Thread_local char description[256];

static void describe(const struct test *t)
{
    snprintf(description, sizeof description,
             "rank %d thread %d case %d: %s%s%s, %d of %d members, root %d, base %d x %d%s%s",
             world_rank, t->thread, t->number, t->inter ? "inter-communicator " : "", t->operation,
             t->detail, t->me, t->size, t->root, t->base, t->multiple,
             t->in_place ? ", in place" : "", t->mixed ? ", mixed types" : "");
    if (verbose)
        fprintf(stderr, "%s\n", description);
}

static void hung(int signal)
{
    (void)signal;
    if (write(2, "hangs in ", 9) > 0 && write(2, description, strlen(description)) > 0)
        (void)!write(2, "\n", 1);
    _exit(3);
}

static void fail(const char *what, long at, const struct layout *l)
{
    fprintf(stderr, "wrong: %s; %s, byte %ld, %s type of %d\n", description, what, at,
            l != NULL ? style_names[l->style] : "no", l != NULL ? l->units : 0);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- one side of a call: blocks of a layout in memory with margins */

struct side {
    struct layout layout;
    count_t counts[MOST], count;
    place_t displs[MOST];
    long periods[MOST];
    char *memory, *image, *base; /* image: what memory must be in the end */
    long size;
};

/* Where the blocks lie: in order, or in any order with gaps. */
static long arrange(struct side *s, struct random *r, int blocks, bool v)
{
    int order[MOST];
    long next = 0;

    for (int i = 0; i < blocks; i++) {
        const int other = v ? draw(r, i + 1) : i;

        order[i] = order[other];
        order[other] = i;
    }
    for (int i = 0; i < blocks; i++) {
        next += v && draw(r, 3) == 0 ? draw(r, 3) : 0;
        s->displs[order[i]] = (place_t)next;
        s->counts[order[i]] = (count_t)(s->periods[order[i]] / s->layout.units);
        next += (long)s->counts[order[i]];
    }
    s->count = s->counts[0];
    return next;
}

static void side_make(struct side *s, struct test *t, const long *periods, int blocks, bool v)
{
    struct random *const r = t->mixed ? &t->own : &t->shared;
    const enum style style = t->plain ? PLAIN : (enum style)draw(r, strict ? STYLES : LOWER);
    static const int divisors[] = {1, 2, 3, 4, 6, 12};
    long total = 3 * blocks + 1;
    int units;

    do
        units = divisors[draw(r, 6)];
    while (t->multiple % units != 0 || (style == PLAIN && units > 1));
    for (int i = 0; i < blocks; i++)
        total += s->periods[i] = periods[i];
    layout_make(&s->layout, t->base, style, units, (int)total);
    const long items = arrange(s, r, blocks, v),
               last = (items > 0 ? items - 1 : 0) * s->layout.extent;
    const long low = (last < 0 ? last : 0) + s->layout.low;

    s->size = (last > 0 ? last : 0) + s->layout.high - low + 2 * MARGIN;
    s->memory = malloc((size_t)s->size);
    s->image = malloc((size_t)s->size);
    memset(s->memory, 0xa5, (size_t)s->size);
    memset(s->image, 0xa5, (size_t)s->size);
    s->base = s->memory + MARGIN - low;
}

/* Writes the values that `key` says, to memory or to the image of what it must be. */
static void side_put(struct side *s, bool image, int block, uint64_t key)
{
    char *const base = image ? s->image + (s->base - s->memory) : s->base;
    const struct layout *const l = &s->layout;

    for (long q = 0; q < s->periods[block] * bases[l->base].parts; q++) {
        const uint64_t value = mix(key, (uint64_t)q);
        const long item = s->displs[block] + q / l->entries;

        memcpy(base + item * l->extent + l->at[q % l->entries], &value,
               (size_t)l->size[q % l->entries]);
    }
}

static void side_fill(struct side *s, int block, uint64_t key)
{
    side_put(s, false, block, key);
    side_put(s, true, block, key);
}

static void side_check(struct side *s, const char *what)
{
    for (long i = 0; i < s->size; i++)
        if (s->memory[i] != s->image[i])
            fail(what, i - (s->base - s->memory), &s->layout);
    layout_free(&s->layout);
    free(s->memory);
    free(s->image);
}

static uint64_t key_of(const struct test *t, int from, int to)
{
    return mix(mix(t->key, (uint64_t)from), (uint64_t)to);
}

/* ---- sizes */

static long size_draw(struct test *t, uint64_t salt)
{
    static const int sizes[] = {0, 1, 1, 2, 3, 5, 8, 17, 40, 100};
    struct random r = {mix(t->key, salt)};
    const int kind = draw(&r, 60);

    return t->multiple * (kind == 0 ? 9000L / t->multiple : sizes[kind % 10]);
}

static void sizes_regular(struct test *t, long *periods)
{
    for (int i = 0; i < MOST; i++)
        periods[i] = size_draw(t, 77);
}

/* Irregular ones: equal, all in one, few with something, or any. */
static void sizes_irregular(struct test *t, long *periods, uint64_t salt, int members)
{
    struct random r = {mix(t->key, salt)};
    const int kind = draw(&r, 6), one = draw(&r, members);

    for (int i = 0; i < MOST; i++) {
        periods[i] = size_draw(t, kind == 0 ? 77 : salt + 100 + (uint64_t)i);
        if ((kind == 1 && i != one) || (kind == 2 && i % 3 != 0))
            periods[i] = 0;
    }
}

/* ---- data movement */

static MPI_Datatype garbage_type(void)
{
    return MPI_DATATYPE_NULL;
}
enum { GARBAGE = -4711 };

static void test_bcast(struct test *t)
{
    struct side s;
    long periods[MOST];

    sizes_regular(t, periods);
    side_make(&s, t, periods, 1, false);
    side_put(&s, t->me != t->root, 0, key_of(t, t->root, 0));
    side_put(&s, true, 0, key_of(t, t->root, 0));
    CALL(Bcast)(s.base, s.count, s.layout.type, t->root, t->comm);
    side_check(&s, "buffer");
}

static void test_gather(struct test *t, bool v)
{
    const bool root = t->me == t->root;
    struct side in, out;
    long periods[MOST];

    if (v)
        sizes_irregular(t, periods, 1, t->size);
    else
        sizes_regular(t, periods);
    side_make(&in, t, &periods[t->me], 1, false);
    side_fill(&in, 0, key_of(t, t->me, 0));
    side_make(&out, t, periods, root ? t->size : 1, v);
    for (int i = 0; root && i < t->size; i++)
        side_put(&out, true, i, key_of(t, i, 0));
    if (root && t->in_place)
        side_put(&out, false, t->me, key_of(t, t->me, 0));
    const void *const from = root && t->in_place ? MPI_IN_PLACE : in.base;
    const count_t count = root && t->in_place ? GARBAGE : in.count;
    const MPI_Datatype type = root && t->in_place ? garbage_type() : in.layout.type;

    void *const to = root ? out.base : NULL;
    const MPI_Datatype out_type = root ? out.layout.type : garbage_type();

    if (v)
        CALL(Gatherv)(from, count, type, to, root ? out.counts : NULL, root ? out.displs : NULL,
                      out_type, t->root, t->comm);
    else
        CALL(Gather)(from, count, type, to, root ? out.count : GARBAGE, out_type, t->root, t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

static void test_scatter(struct test *t, bool v)
{
    const bool root = t->me == t->root;
    struct side in, out;
    long periods[MOST];

    if (v)
        sizes_irregular(t, periods, 1, t->size);
    else
        sizes_regular(t, periods);
    side_make(&in, t, periods, root ? t->size : 1, v);
    for (int i = 0; root && i < t->size; i++)
        side_fill(&in, i, key_of(t, i, 0));
    side_make(&out, t, &periods[t->me], 1, false);
    if (!root || !t->in_place)
        side_put(&out, true, 0, key_of(t, t->me, 0));
    void *const to = root && t->in_place ? MPI_IN_PLACE : out.base;
    const count_t count = root && t->in_place ? GARBAGE : out.count;
    const MPI_Datatype type = root && t->in_place ? garbage_type() : out.layout.type;

    if (v)
        CALL(Scatterv)(root ? in.base : NULL, in.counts, in.displs,
                       root ? in.layout.type : garbage_type(), to, count, type, t->root, t->comm);
    else
        CALL(Scatter)(root ? in.base : NULL, root ? in.count : GARBAGE,
                      root ? in.layout.type : garbage_type(), to, count, type, t->root, t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

static void test_allgather(struct test *t, bool v)
{
    struct side in, out;
    long own[MOST], others[MOST];
    const bool in_place = t->in_place && !t->inter;

    /* On an inter-communicator each group has sizes of its own. */
    const uint64_t mine = t->inter && t->first ? 2 : 1, theirs = t->inter && !t->first ? 2 : 1;

    if (v) {
        sizes_irregular(t, own, mine, t->size);
        sizes_irregular(t, others, theirs, t->there);
    } else {
        for (int i = 0; i < MOST; i++) {
            own[i] = size_draw(t, mine);
            others[i] = size_draw(t, theirs);
        }
    }
    side_make(&in, t, &own[t->me], 1, false);
    side_fill(&in, 0, key_of(t, t->me, t->first));
    side_make(&out, t, others, t->there, v);
    for (int i = 0; i < t->there; i++)
        side_put(&out, true, i, key_of(t, i, t->inter ? !t->first : t->first));
    if (in_place)
        side_put(&out, false, t->me, key_of(t, t->me, t->first));
    const void *const from = in_place ? MPI_IN_PLACE : in.base;
    const count_t count = in_place ? GARBAGE : in.count;
    const MPI_Datatype type = in_place ? garbage_type() : in.layout.type;

    if (v)
        CALL(Allgatherv)(from, count, type, out.base, out.counts, out.displs, out.layout.type,
                         t->comm);
    else
        CALL(Allgather)(from, count, type, out.base, out.count, out.layout.type, t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

static long between(struct test *t, int from, int to)
{
    const int a = t->in_place && from > to ? to : from, b = t->in_place && from > to ? from : to;

    return size_draw(t, 1000 + (uint64_t)(a * MOST + b));
}

static void test_alltoall(struct test *t, bool v)
{
    struct side in, out;
    long sent[MOST], received[MOST];

    for (int i = 0; i < t->size; i++) {
        sent[i] = v ? between(t, t->me, i) : size_draw(t, 77);
        received[i] = v ? between(t, i, t->me) : size_draw(t, 77);
    }
    side_make(&in, t, sent, t->size, v);
    side_make(&out, t, received, t->size, v);
    for (int i = 0; i < t->size; i++) {
        side_fill(&in, i, key_of(t, t->me, i));
        side_put(&out, true, i, key_of(t, i, t->me));
        if (t->in_place)
            side_put(&out, false, i, key_of(t, t->me, i));
    }
    if (v && t->in_place)
        CALL(Alltoallv)(MPI_IN_PLACE, NULL, NULL, garbage_type(), out.base, out.counts, out.displs,
                        out.layout.type, t->comm);
    else if (v)
        CALL(Alltoallv)(in.base, in.counts, in.displs, in.layout.type, out.base, out.counts,
                        out.displs, out.layout.type, t->comm);
    else if (t->in_place)
        CALL(Alltoall)(MPI_IN_PLACE, GARBAGE, garbage_type(), out.base, out.count, out.layout.type,
                       t->comm);
    else
        CALL(Alltoall)(in.base, in.count, in.layout.type, out.base, out.count, out.layout.type,
                       t->comm);
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

/* Nobody leaves a barrier before all have come: `arrivals` counts them. */
static void test_barrier(struct test *t)
{
    const long all = t->inter ? t->size + t->there : t->size;
    const long before = atomic_fetch_add(t->arrivals, 1) / all;

    if (draw(&t->own, 4) == 0)
        usleep((useconds_t)draw(&t->own, 300));
    MPI_Barrier(t->comm);
    if (atomic_load(t->arrivals) < (before + 1) * all)
        fail("left before all had come", 0, NULL);
    MPI_Barrier(t->comm);
    atomic_fetch_add(t->arrivals, 1);
    MPI_Barrier(t->comm);
}

/* ---- reductions */

enum reduction { SUM, MAX, BXOR, DOUBLES, MAXLOC, USER_SUM, USER_AFFINE, REDUCTIONS };
static const char *const reduction_names[] = {"sum",    "max",  "bxor",          "doubles",
                                              "maxloc", "user", "noncommutative"};
enum { MODULUS = 10007 };
static MPI_Op user_sum, user_affine;
static _Thread_local const struct layout *current;

static int load_int(const void *at)
{
    int value;

    memcpy(&value, at, sizeof value);
    return value;
}

static void store_int(void *at, int value)
{
    memcpy(at, &value, sizeof value);
}

/* Affine maps x -> a x + b, one after the other: associative, not commutative. */
static void compose(const int *left, const int *right, int *result)
{
    const long a = left[0], b = left[1], c = right[0], d = right[1];

    result[0] = (int)(a * c % MODULUS);
    result[1] = (int)((a * d + b) % MODULUS);
}

static void add_items(void *in, void *inout, count_t *count, MPI_Datatype *type)
{
    (void)type;
    for (count_t i = 0; i < *count; i++)
        for (int k = 0; k < current->entries; k++) {
            const long at = (long)i * current->extent + current->at[k];

            store_int((char *)inout + at, load_int((char *)in + at) + load_int((char *)inout + at));
        }
}

static void compose_items(void *in, void *inout, count_t *count, MPI_Datatype *type)
{
    (void)type;
    for (count_t i = 0; i < *count; i++)
        for (int k = 0; k < current->entries; k += 2) {
            const long at = (long)i * current->extent + current->at[k];
            const long next = (long)i * current->extent + current->at[k + 1];
            const int left[] = {load_int((char *)in + at), load_int((char *)in + next)};
            const int right[] = {load_int((char *)inout + at), load_int((char *)inout + next)};
            int result[2];

            compose(left, right, result);
            store_int((char *)inout + at, result[0]);
            store_int((char *)inout + next, result[1]);
        }
}

/* What rank `from` gives at base element q. */
static uint64_t operand(const struct test *t, enum reduction how, int from, long q)
{
    const uint64_t h = mix(key_of(t, from, 0), (uint64_t)q);
    const int small = (int)(h % 1000);
    uint64_t value = 0;
    double real = (double)(h >> 12) / (double)((h & 0xff) + 1) - 1e6;

    if (how == MAXLOC && q % 2 == 0)
        real = small % 5;
    if (how == DOUBLES || (how == MAXLOC && q % 2 == 0)) {
        memcpy(&value, &real, sizeof value);
        return value;
    }
    return how == MAXLOC ? (uint64_t)from : how == BXOR ? h : (uint64_t)small;
}

static uint64_t fold(const struct test *t, enum reduction how, long q)
{
    uint64_t total = operand(t, how, 0, q);
    int pair[2] = {(int)operand(t, how, 0, q & ~1L), (int)operand(t, how, 0, q | 1L)};

    if (how == MAXLOC) { /* the largest, and of equal ones the lowest place */
        double best = 0;
        int where = 0;

        for (int i = 0; i < t->size; i++) {
            const uint64_t bits = operand(t, how, i, q & ~1L);
            double value;

            memcpy(&value, &bits, sizeof value);
            if (i == 0 || value > best) {
                best = value;
                where = i;
            }
        }
        return operand(t, how, where, q);
    }
    for (int i = 1; i < t->size; i++) {
        const uint64_t next = operand(t, how, i, q);
        const int right[] = {(int)operand(t, how, i, q & ~1L), (int)operand(t, how, i, q | 1L)};

        if (how == USER_AFFINE)
            compose((const int[]){pair[0], pair[1]}, right, pair);
        total = how == MAX    ? (next > total ? next : total)
                : how == BXOR ? total ^ next
                              : total + next;
    }
    return how == USER_AFFINE ? (uint64_t)pair[q & 1] : total;
}

/* The vector's base elements first .. first + n - 1 of a buffer that begins with the first of them.
 */
static void reduction_put(struct side *s, bool image, const struct test *t, enum reduction how,
                          int from, long first, long n)
{
    char *const base = image ? s->image + (s->base - s->memory) : s->base;
    const struct layout *const l = &s->layout;

    for (long q = 0; q < n; q++) {
        const uint64_t v = from < 0 ? fold(t, how, first + q) : operand(t, how, from, first + q);

        memcpy(base + q / l->entries * l->extent + l->at[q % l->entries], &v,
               (size_t)l->size[q % l->entries]);
    }
}

/* Sums of doubles depend on the association, but are near, and the same on all ranks. */
static void check_doubles(struct side *s, const struct test *t, long first, long n, bool everywhere)
{
    double sums[2];
    char *const image = s->image + (s->base - s->memory);
    const struct layout *const l = &s->layout;

    for (long q = 0; q < n; q++) {
        const long at = q / l->entries * l->extent + l->at[q % l->entries];
        double sum = 0, size = 0, found;

        for (int i = 0; i < t->size; i++) {
            const uint64_t bits = operand(t, DOUBLES, i, first + q);
            double value;

            memcpy(&value, &bits, sizeof value);
            sum += value;
            size += value < 0 ? -value : value;
        }
        memcpy(&found, s->base + at, sizeof found);
        if (found - sum > size * 1e-13 || sum - found > size * 1e-13)
            fail("sum of doubles", at, l);
        memcpy(image + at, &found, sizeof found);
    }
    if (!everywhere)
        return;
    uint64_t h = 0;

    for (long i = 0; i < s->size; i++)
        h = mix(h, (unsigned char)s->memory[i]);
    memcpy(sums, &h, sizeof h);
    int64_t mine = (int64_t)(h >> 1), lowest = 0, highest = 0;

    PMPI_Allreduce(&mine, &lowest, 1, MPI_INT64_T, MPI_MIN, t->comm);
    PMPI_Allreduce(&mine, &highest, 1, MPI_INT64_T, MPI_MAX, t->comm);
    if (lowest != highest)
        fail("sums of doubles differ between ranks", 0, l);
}

static MPI_Op op_of(enum reduction how)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_SUM, MPI_MAXLOC, user_sum, user_affine};

    return ops[how];
}

enum scope { REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK };

static void test_reduction(struct test *t, enum scope scope)
{
    enum reduction how = (enum reduction)draw(&t->shared, REDUCTIONS);
    const bool scatters = scope >= REDUCE_SCATTER, gets = scope != REDUCE || t->me == t->root;
    const bool in_place = t->in_place && gets;
    static const enum base base_of[] = {INT, INT, INT, DOUBLE, DOUBLE_INT, INT, INT};
    struct side in, out;
    long shares[MOST], all = 0, before = 0;

    t->mixed = false; /* a reduction's type is the same on all ranks */
    t->base = base_of[how];
    t->multiple = how < USER_SUM ? 1 : 2 * t->multiple;
    if (how == USER_AFFINE && scatters && !strict)
        how = USER_SUM; /* MPICH overruns memory there */

    if (scope == REDUCE_SCATTER)
        sizes_irregular(t, shares, 1, t->size);
    else
        sizes_regular(t, shares);
    for (int i = 0; i < (scatters ? t->size : 1); i++) {
        before += i < t->me && scatters ? shares[i] : 0;
        all += shares[i];
    }
    /* Both sides have one type, of as many ints as the operation wants, or a predefined one. */
    const int units[] = {2, 4, 6};
    const enum style tame[] = {CONTIGUOUS, GAPS,
                               RESIZED}; /* for the libraries' own algorithms, alone, too */
    const int drawn = draw(&t->shared, INTERLEAVED - 1);
    const enum style style = how < USER_SUM          ? PLAIN
                             : strict && t->size > 1 ? (enum style)(1 + drawn)
                                                     : tame[drawn % 3];
    const int unit = how < USER_SUM ? 1 : units[draw(&t->shared, 3)];

    for (int i = 0; i < MOST; i++)
        shares[i] = shares[i] / t->multiple * unit;
    all = all / t->multiple * unit;
    before = before / t->multiple * unit;
    const long mine = scatters ? shares[t->me] : all, base_parts = bases[t->base].parts;
    struct side *const sides[] = {&in, &out};

    for (int i = 0; i < 2; i++) {
        struct side *const s = sides[i];
        const long periods = i == 0 || in_place ? all : mine;

        layout_make(&s->layout, t->base, style, unit, (int)all + 1);
        s->periods[0] = periods;
        const long items = arrange(s, &t->shared, 1, false);
        const long last = (items > 0 ? items - 1 : 0) * s->layout.extent;
        const long low = (last < 0 ? last : 0) + s->layout.low;

        s->size = (last > 0 ? last : 0) + s->layout.high - low + 2 * MARGIN;
        s->memory = malloc((size_t)s->size);
        s->image = malloc((size_t)s->size);
        memset(s->memory, 0xa5, (size_t)s->size);
        memset(s->image, 0xa5, (size_t)s->size);
        s->base = s->memory + MARGIN - low;
    }
    char detail[80];

    snprintf(detail, sizeof detail, " %s of %ld %s types of %d", reduction_names[how], all / unit,
             style_names[style], unit);
    t->detail = detail;
    describe(t);
    current = &in.layout;
    for (int image = 0; image < 2; image++)
        reduction_put(&in, image, t, how, t->me, 0, all * base_parts);
    if (in_place)
        for (int image = 0; image < 2; image++)
            reduction_put(&out, image, t, how, t->me, 0, all * base_parts);
    if (gets)
        reduction_put(&out, true, t, how, -1, before * base_parts, mine * base_parts);
    const void *const from = in_place ? MPI_IN_PLACE : in.base;
    const MPI_Datatype type = in.layout.type;
    const MPI_Op op = op_of(how);

    for (int i = 0; i < t->size; i++)
        out.counts[i] = (count_t)(shares[i] / unit);
    switch (scope) {
    case REDUCE:
        CALL(Reduce)(from, gets ? out.base : NULL, in.count, type, op, t->root, t->comm);
        break;
    case ALLREDUCE: CALL(Allreduce)(from, out.base, in.count, type, op, t->comm); break;
    case REDUCE_SCATTER: CALL(Reduce_scatter)(from, out.base, out.counts, type, op, t->comm); break;
    case REDUCE_SCATTER_BLOCK:
        CALL(Reduce_scatter_block)(from, out.base, out.counts[0], type, op, t->comm);
        break;
    }
    if (gets && how == DOUBLES)
        check_doubles(&out, t, before * base_parts, mine * base_parts, scope == ALLREDUCE);
    if (in_place && scatters) { /* what is behind the own share is anybody's */
        char *const image = out.image + (out.base - out.memory);

        for (long q = mine * base_parts; q < all * base_parts; q++) {
            const long at =
                q / out.layout.entries * out.layout.extent + out.layout.at[q % out.layout.entries];

            memcpy(image + at, out.base + at, (size_t)out.layout.size[q % out.layout.entries]);
        }
    }
    side_check(&in, "send buffer");
    side_check(&out, "receive buffer");
}

/* ---- rooted operations on an inter-communicator, which stay native: garbage must not be read */

static void test_inter_rooted(struct test *t)
{
    const bool gives = t->first == (draw(&t->shared, 2) == 0);
    int value[MOST], values[MOST];
    const int root = gives ? (t->me == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;

    for (int i = 0; i < MOST; i++)
        value[i] = values[i] = (int)(mix(t->key, 5) % 1000);
    if (gives && t->me != 0)
        CALL(Bcast)(NULL, 0, MPI_INT, root, t->comm); /* Open MPI checks what is not significant */
    else
        CALL(Bcast)(values, 3, MPI_INT, root, t->comm);
    if (gives && t->me != 0)
        CALL(Gather)(NULL, GARBAGE, garbage_type(), NULL, GARBAGE, garbage_type(), root, t->comm);
    else if (gives)
        CALL(Gather)(NULL, GARBAGE, garbage_type(), values, 1, MPI_INT, root, t->comm);
    else
        CALL(Gather)(value, 1, MPI_INT, NULL, GARBAGE, garbage_type(), root, t->comm);
    for (int i = 0; i < 3; i++)
        if (values[i] != value[i])
            fail("rooted operation", i, NULL);
    value[0] = 1;
    CALL(Allreduce)(value, values, 1, MPI_INT, MPI_SUM, t->comm);
    if (values[0] != t->there)
        fail("allreduce of the other group", 0, NULL);
}

/* ---- all of them */

static void run_bcast(struct test *t)
{
    test_bcast(t);
}
static void run_gather(struct test *t)
{
    test_gather(t, false);
}
static void run_gatherv(struct test *t)
{
    test_gather(t, true);
}
static void run_scatter(struct test *t)
{
    test_scatter(t, false);
}
static void run_scatterv(struct test *t)
{
    test_scatter(t, true);
}
static void run_allgather(struct test *t)
{
    test_allgather(t, false);
}
static void run_allgatherv(struct test *t)
{
    test_allgather(t, true);
}
static void run_alltoall(struct test *t)
{
    test_alltoall(t, false);
}
static void run_alltoallv(struct test *t)
{
    test_alltoall(t, true);
}
static void run_reduce(struct test *t)
{
    test_reduction(t, REDUCE);
}
static void run_allreduce(struct test *t)
{
    test_reduction(t, ALLREDUCE);
}
static void run_reduce_scatter(struct test *t)
{
    test_reduction(t, REDUCE_SCATTER);
}
static void run_reduce_scatter_block(struct test *t)
{
    test_reduction(t, REDUCE_SCATTER_BLOCK);
}

static const struct {
    const char *name;
    void (*run)(struct test *t);
    bool inter, any; /* any datatypes will do, with the library's own algorithms, too */
} operations[] = {
    {"bcast", run_bcast, false, true},
    {"gather", run_gather, false, true},
    {"gatherv", run_gatherv, false, true},
    {"scatter", run_scatter, false, true},
    {"scatterv", run_scatterv, false, true},
    {"allgather", run_allgather, false, true},
    {"allgatherv", run_allgatherv, false, false},
    {"alltoall", run_alltoall, false, true},
    {"alltoallv", run_alltoallv, false, true},
    {"reduce", run_reduce, false, true},
    {"allreduce", run_allreduce, false, true},
    {"reduce_scatter", run_reduce_scatter, false, true},
    {"reduce_scatter_block", run_reduce_scatter_block, false, true},
    {"barrier", test_barrier, false, true},
    {"allgather", run_allgather, true, false},
    {"allgatherv", run_allgatherv, true, false},
    {"rooted", test_inter_rooted, true, false},
    {"barrier", test_barrier, true, true},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static atomic_long *shared_counters;

static void run_case(int thread, int number, uint64_t seed, const struct communicators *k)
{
    struct test t = {.shared = {mix(mix(seed, (uint64_t)thread), (uint64_t)number)},
                     .number = number,
                     .thread = thread,
                     .detail = ""};
    static const int multiples[] = {1, 1, 2, 6, 12};
    const int which = draw(&t.shared, OPERATIONS), place = draw(&t.shared, 5);
    const MPI_Comm comms[] = {k->world, k->world, k->reversed, k->half, MPI_COMM_WORLD};

    if (only != NULL && strcmp(only, operations[which].name) != 0)
        return;
    t.operation = operations[which].name;
    t.inter = operations[which].inter;
    if (t.inter && world_size < 2)
        return;
    t.comm = t.inter ? k->inter : comms[thread == 0 || place < 4 ? place : 0];
    MPI_Comm_rank(t.comm, &t.me);
    MPI_Comm_size(t.comm, &t.size);
    t.there = t.size;
    if (t.inter)
        MPI_Comm_remote_size(t.comm, &t.there);
    t.first = t.inter && k->first;
    t.key = t.shared.state;
    t.own.state = mix(t.key, (uint64_t)world_rank + 1000);
    t.root = (int)(mix(t.key, 9) % (uint64_t)t.size);
    t.in_place = draw(&t.shared, 3) == 0;
    t.plain = !operations[which].any && !strict;
    t.mixed = draw(&t.shared, 2) == 0 && !t.plain;
    t.base = (enum base)draw(&t.shared, BASES);
    if (t.base == CHAR_DOUBLE && t.inter && !strict)
        t.base = DOUBLE;
    t.multiple = multiples[draw(&t.shared, 5)];
    t.arrivals = &shared_counters[8 * thread + (t.inter ? 4 : place == 3 ? 2 + world_rank % 2 : 0)];
    describe(&t);
    alarm(40);
    operations[which].run(&t);
}

struct work {
    struct communicators k;
    uint64_t seed;
    int thread, first, last;
};

static void *run_cases(void *argument)
{
    const struct work *const w = argument;

    for (int i = w->first; i < w->last; i++)
        run_case(w->thread, i, w->seed, &w->k);
    return NULL;
}

static void communicators_make(struct communicators *k)
{
    const int first = (world_size + 2) / 3;
    MPI_Comm group;

    MPI_Comm_dup(MPI_COMM_WORLD, &k->world);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &k->reversed);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &k->half);
    k->inter = MPI_COMM_NULL;
    if (world_size < 2)
        return;
    k->first = world_rank < first;
    MPI_Comm_split(MPI_COMM_WORLD, k->first, 0, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, k->first ? first : 0, 7, &k->inter);
    MPI_Comm_free(&group);
}

static void communicators_free(struct communicators *k)
{
    MPI_Comm_free(&k->world);
    MPI_Comm_free(&k->reversed);
    MPI_Comm_free(&k->half);
    if (k->inter != MPI_COMM_NULL)
        MPI_Comm_free(&k->inter);
}

int main(int argc, char **argv)
{
    struct work work[MOST_THREADS];
    pthread_t handles[MOST_THREADS];
    int threads = 1, first = 0, provided;

    if (argc < 4)
        return 2;
    for (int i = 4; i < argc; i++) {
        strict |= strcmp(argv[i], "strict") == 0;
        verbose |= strcmp(argv[i], "verbose") == 0;
        if (strncmp(argv[i], "only=", 5) == 0)
            only = argv[i] + 5;
        if (strncmp(argv[i], "threads=", 8) == 0)
            threads = atoi(argv[i] + 8);
        if (strncmp(argv[i], "first=", 6) == 0)
            first = atoi(argv[i] + 6);
    }
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    if (threads > 1 && provided < MPI_THREAD_MULTIPLE)
        return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    signal(SIGALRM, hung);
    const int file = open(argv[3], O_RDWR | O_CREAT, 0600);

    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    shared_counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CREATE_OP(add_items, 1, &user_sum);
    CREATE_OP(compose_items, 0, &user_affine);
    for (int i = 0; i < threads; i++) {
        work[i] = (struct work){.seed = strtoull(argv[1], NULL, 0),
                                .thread = i,
                                .first = first,
                                .last = first + atoi(argv[2])};
        communicators_make(&work[i].k);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < threads; i++)
        pthread_create(&handles[i], NULL, run_cases, &work[i]);
    run_cases(&work[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(handles[i], NULL);
    for (int i = 0; i < threads; i++)
        communicators_free(&work[i].k);
    MPI_Op_free(&user_sum);
    MPI_Op_free(&user_affine);
    MPI_Finalize();
    return 0;
}
