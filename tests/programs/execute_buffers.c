/* Datatypes and buffers of the random calls. Values are derived from a key, and every byte is
 * checked. */
#include "execute_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers that look random */

uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;

    h = (h ^ (h >> 29)) * 0x94d049bb133111ebu;
    return h ^ (h >> 32);
}

int draw(struct random *r, int below)
{
    r->state = mix(r->state, 1);
    return (int)((r->state >> 11) % (uint64_t)below);
}

/* ---- datatypes: periods of base elements at chosen places */

const struct parts bases[BASES] = {{1, {1}, {0}, 1},
                                   {1, {4}, {0}, 4},
                                   {1, {8}, {0}, 8},
                                   {2, {1, 8}, {0, 8}, 16},
                                   {2, {8, 4}, {0, 8}, 16}};
const char *const style_names[STYLES] = {"plain",   "contiguous", "gaps",     "reversed",
                                         "resized", "lower",      "negative", "interleaved"};

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

void layout_make(struct layout *l, enum base base, enum style style, int units, int width)
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

_Thread_local char description[256];

void describe(const struct test *t)
{
    snprintf(description, sizeof description,
             "rank %d thread %d case %d: %s%s%s, %d of %d members, root %d, base %d x %d%s%s",
             world_rank, t->thread, t->number, t->inter ? "inter-communicator " : "", t->operation,
             t->detail, t->me, t->size, t->root, t->base, t->multiple,
             t->in_place ? ", in place" : "", t->mixed ? ", mixed types" : "");
    if (verbose)
        fprintf(stderr, "%s\n", description);
}

void fail(const char *what, long at, const struct layout *l)
{
    fprintf(stderr, "wrong: %s; %s, byte %ld, %s type of %d\n", description, what, at,
            l != NULL ? style_names[l->style] : "no", l != NULL ? l->units : 0);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- one side of a call: blocks of a layout in memory with margins */

/* Place the blocks in order, or in any order with gaps. */
long arrange(struct side *s, struct random *r, int blocks, bool v)
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

void side_make(struct side *s, struct test *t, const long *periods, int blocks, bool v)
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
void side_put(struct side *s, bool image, int block, uint64_t key)
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

void side_fill(struct side *s, int block, uint64_t key)
{
    side_put(s, false, block, key);
    side_put(s, true, block, key);
}

void side_check(struct side *s, const char *what)
{
    for (long i = 0; i < s->size; i++)
        if (s->memory[i] != s->image[i])
            fail(what, i - (s->base - s->memory), &s->layout);
    layout_free(&s->layout);
    free(s->memory);
    free(s->image);
}

uint64_t key_of(const struct test *t, int from, int to)
{
    return mix(mix(t->key, (uint64_t)from), (uint64_t)to);
}

/* ---- sizes */

long size_draw(struct test *t, uint64_t salt)
{
    static const int sizes[] = {0, 1, 1, 2, 3, 5, 8, 17, 40, 100};
    struct random r = {mix(t->key, salt)};
    const int kind = draw(&r, 60);

    return t->multiple * (kind == 0 ? 9000L / t->multiple : sizes[kind % 10]);
}

void sizes_regular(struct test *t, long *periods)
{
    for (int i = 0; i < MOST; i++)
        periods[i] = size_draw(t, 77);
}

/* Irregular ones: equal, all in one, few with something, or any. */
void sizes_irregular(struct test *t, long *periods, uint64_t salt, int members)
{
    struct random r = {mix(t->key, salt)};
    const int kind = draw(&r, 6), one = draw(&r, members);

    for (int i = 0; i < MOST; i++) {
        periods[i] = size_draw(t, kind == 0 ? 77 : salt + 100 + (uint64_t)i);
        if ((kind == 1 && i != one) || (kind == 2 && i % 3 != 0))
            periods[i] = 0;
    }
}
