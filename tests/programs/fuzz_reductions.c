/* Random collectives (fuzz_collectives.c): reductions of ints, and of matrices, for which the
 * order matters. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
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

/* Compute the reduction of element i over ranks 0 to `last`: one int, or a matrix. */
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

void reduction(struct thread *t, struct comm *c)
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
