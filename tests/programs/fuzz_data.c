/* Random collectives (fuzz_collectives.c): random choices, and buffers with gaps that must not
 * change. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

long seed;
MPI_Datatype layouts[LAYOUTS], matrix;
const int extents[LAYOUTS] = {1, 2, 3}, places[LAYOUTS] = {0, 1, 1};
MPI_Op product;
atomic_int wrong;

uint32_t draw_from(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

uint32_t draw(struct thread *t, uint32_t below)
{
    return draw_from(&t->shared, below);
}

/* Mostly few: uniform in the number of digits. */
int draw_count(struct thread *t, int most)
{
    int bits = 0;

    while (most >> bits > 1)
        bits++;
    const int count = (int)(draw(t, 1u << draw(t, (uint32_t)bits + 2)));

    return count < most ? count : most;
}

void complain(const struct thread *t, const char *what, int at)
{
    if (atomic_fetch_add(&wrong, 1) < 5)
        fprintf(stderr, "seed %ld thread %d call %ld: %s is wrong at %d\n", seed, t->number,
                t->calls, what, at);
}

/* ---- buffers */

struct buffer buffer_make(int elements, int layout)
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

int value(const struct thread *t, int rank, int i)
{
    return (int)((uint32_t)(rank * 7919 + i * 31) ^ (uint32_t)t->calls) & 0xffffff;
}

void fill(const struct thread *t, const struct buffer *b, int first, int count, int rank, int from)
{
    for (int i = 0; i < count; i++)
        *element(b, first + i) = value(t, rank, from + i);
}

void check(const struct thread *t, const char *what, const struct buffer *b, int first, int count,
           int rank, int from)
{
    for (int i = 0; i < count; i++)
        if (*element(b, first + i) != value(t, rank, from + i)) {
            complain(t, what, first + i);
            return;
        }
}

void buffer_end(const struct thread *t, const char *what, struct buffer *b)
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

int own_layout(struct thread *t)
{
    return (int)draw_from(&t->own, LAYOUTS);
}

struct shares shares_draw(struct thread *t, int ranks, int v)
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

void wait_for(MPI_Request *r)
{
    int done = 0;

    while (!done)
        MPI_Test(r, &done, MPI_STATUS_IGNORE);
}
