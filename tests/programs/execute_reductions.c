/* Random reductions with predefined and user-defined operations, commutative or not. */
#include "execute_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Return the contribution of rank `from` at base element q. */
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

void test_reduction(struct test *t, enum scope scope)
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

void reductions_begin(void)
{
    CREATE_OP(add_items, 1, &user_sum);
    CREATE_OP(compose_items, 0, &user_affine);
}

void reductions_end(void)
{
    MPI_Op_free(&user_sum);
    MPI_Op_free(&user_affine);
}
