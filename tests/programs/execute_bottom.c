/* Collectives on MPI_BOTTOM, with absolute addresses in types and in displacements. Each rank
 * checks its results and exits with 1 if a result is wrong.
 *
 * LARGE: the library has large counts. REDUCTIONS: the library supports reductions on MPI_BOTTOM
 * (MPICH 5.0 does not).
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 3, MOST = 8 };
static int rank, size, wrong;
static int from[MOST * COUNT], to[MOST * COUNT], vector[COUNT];

static MPI_Datatype absolute(int *at, int count)
{
    MPI_Datatype type;
    MPI_Aint place;

    MPI_Get_address(at, &place);
    MPI_Type_create_hindexed(1, &count, &place, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* The same, where the next element begins `stride` numbers later. */
static MPI_Datatype in_steps(int *at, int stride)
{
    MPI_Datatype one = absolute(at, COUNT), type;

    MPI_Type_create_resized(one, 0, stride * (int)sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&one);
    return type;
}

static void prepare(void)
{
    for (int i = 0; i < MOST * COUNT; i++)
        from[i] = 100 * rank + i, to[i] = -1;
    for (int i = 0; i < COUNT; i++)
        vector[i] = 10 * (rank + 1) + i;
}

static void expect(const char *name, int at, int value)
{
    if (to[at] != value)
        printf("%d %s: %d at %d, not %d\n", rank, name, to[at], at, value);
    wrong |= to[at] != value;
}

static void expect_gathered(const char *name)
{
    for (int i = 0; i < size * COUNT; i++)
        expect(name, i, 100 * (i / COUNT) + i % COUNT);
}

#ifdef REDUCTIONS
static void multiply(void *in, void *out, int *count, MPI_Datatype *type)
{
    MPI_Aint lower, extent;

    MPI_Type_get_true_extent(*type, &lower, &extent);
    for (int i = 0; i < *count * COUNT; i++)
        ((int *)((char *)out + lower))[i] *= ((int *)((char *)in + lower))[i];
}

#endif

static void regular_forms(MPI_Comm comm)
{
    MPI_Datatype block = absolute(from, COUNT), blocks = in_steps(from, COUNT);
    MPI_Datatype places = in_steps(to, COUNT), place = absolute(to, COUNT);

    prepare();
    MPI_Bcast(MPI_BOTTOM, 1, rank == 1 ? block : place, 1, comm);
    for (int i = 0; rank != 1 && i < COUNT; i++)
        expect("bcast", i, 100 + i);
    prepare();
    MPI_Gather(MPI_BOTTOM, 1, block, MPI_BOTTOM, 1, places, 0, comm);
    if (rank == 0)
        expect_gathered("gather");
    prepare();
    MPI_Allgather(MPI_BOTTOM, 1, block, MPI_BOTTOM, 1, places, comm);
    expect_gathered("allgather");
    prepare();
    memcpy(&to[rank * COUNT], from, sizeof vector);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, MPI_BOTTOM, 1, places, comm);
    expect_gathered("allgather in place");
    prepare();
    MPI_Scatter(MPI_BOTTOM, 1, blocks, MPI_BOTTOM, 1, place, 1, comm);
    for (int i = 0; i < COUNT; i++)
        expect("scatter", i, 100 + rank * COUNT + i);
    prepare();
    MPI_Alltoall(MPI_BOTTOM, 1, blocks, MPI_BOTTOM, 1, places, comm);
    for (int i = 0; i < size * COUNT; i++)
        expect("alltoall", i, 100 * (i / COUNT) + rank * COUNT + i % COUNT);
    MPI_Type_free(&block);
    MPI_Type_free(&blocks);
    MPI_Type_free(&places);
    MPI_Type_free(&place);
}

/* Backwards: the first rank's block is the last one, and displacements are negative. */
static void irregular_forms(MPI_Comm comm)
{
    MPI_Datatype block = absolute(from, COUNT);
    MPI_Datatype last = in_steps(&to[(size - 1) * COUNT], COUNT);
    MPI_Datatype last_sent = in_steps(&from[(size - 1) * COUNT], COUNT);
    int ones[MOST], backwards[MOST];

    for (int i = 0; i < size; i++)
        ones[i] = 1, backwards[i] = i + 1 - size;
    prepare();
    MPI_Allgatherv(MPI_BOTTOM, 1, block, MPI_BOTTOM, ones, backwards, last, comm);
    expect_gathered("allgatherv");
    prepare();
    MPI_Gatherv(MPI_BOTTOM, 1, block, MPI_BOTTOM, ones, backwards, last, 1, comm);
    if (rank == 1)
        expect_gathered("gatherv");
    prepare();
    MPI_Scatterv(MPI_BOTTOM, ones, backwards, last_sent, to, COUNT, MPI_INT, 1, comm);
    for (int i = 0; i < COUNT; i++)
        expect("scatterv", i, 100 + rank * COUNT + i);
    prepare();
    MPI_Alltoallv(MPI_BOTTOM, ones, backwards, last_sent, MPI_BOTTOM, ones, backwards, last, comm);
    for (int i = 0; i < size * COUNT; i++)
        expect("alltoallv", i, 100 * (i / COUNT) + rank * COUNT + i % COUNT);
    MPI_Type_free(&block);
    MPI_Type_free(&last);
    MPI_Type_free(&last_sent);
}

#ifdef REDUCTIONS
/* The same memory in the type of both sides: a type has one layout in a reduction, so that it is
 * in place, or from a buffer that has the type's distance from another. */
static void reductions(MPI_Comm comm)
{
    MPI_Datatype type = absolute(vector, COUNT);
    MPI_Aint here, there;
    MPI_Op op;
    int product;

    MPI_Op_create(multiply, 1, &op);
    prepare();
    MPI_Allreduce(MPI_IN_PLACE, MPI_BOTTOM, 1, type, op, comm);
    for (int i = 0; i < COUNT; i++) {
        product = 1;
        for (int r = 0; r < size; r++)
            product *= 10 * (r + 1) + i;
        to[i] = vector[i];
        expect("allreduce in place", i, product);
    }
    prepare();
    MPI_Get_address(vector, &here);
    MPI_Get_address(to, &there);
    MPI_Allreduce(MPI_BOTTOM, (char *)MPI_BOTTOM + (there - here), 1, type, op, comm);
    for (int i = 0; i < COUNT; i++) {
        product = 1;
        for (int r = 0; r < size; r++)
            product *= 10 * (r + 1) + i;
        expect("allreduce", i, product);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}
#endif

#ifdef LARGE
/* Displacements are addresses, of a plain type. */
static void addresses_as_displacements(MPI_Comm comm)
{
    MPI_Count counts[MOST];
    MPI_Aint places[MOST];

    prepare();
    for (int i = 0; i < size; i++) {
        counts[i] = sizeof vector;
        MPI_Get_address(&to[i * COUNT], &places[i]);
    }
    MPI_Allgatherv_c(from, sizeof vector, MPI_BYTE, MPI_BOTTOM, counts, places, MPI_BYTE, comm);
    expect_gathered("allgatherv of bytes");
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3; i++) {
        regular_forms(MPI_COMM_WORLD);
        irregular_forms(MPI_COMM_WORLD);
#ifdef REDUCTIONS
        reductions(MPI_COMM_WORLD);
#endif
#ifdef LARGE
        addresses_as_displacements(MPI_COMM_WORLD);
#endif
    }
    MPI_Finalize();
    return wrong;
}
