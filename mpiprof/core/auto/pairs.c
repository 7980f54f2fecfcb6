/* A nonblocking reduction of pairs: the sum of their first halves, the maximum of their second.
 *
 * What one reduction carries costs two of the library's: each sends some small messages within the
 * program's own calls, and what they hold hardly matters. As every pair is reduced alike, the
 * library may split them as it likes.
 */
#include "auto/pairs.h"
#include "base/native.h"
#include "base/pmpi.h"

static MPI_Datatype pair_type;
static MPI_Op pair_op;
static bool made;

static void reduce(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const struct pair *const a = in;
    struct pair *const b = inout;

    (void)type;
    for (int i = 0; i < *count; i++) {
        b[i].sum = (int64_t)((uint64_t)a[i].sum + (uint64_t)b[i].sum); /* may wrap: arrival.c */
        b[i].most = a[i].most > b[i].most ? a[i].most : b[i].most;
    }
}

/* By all ranks, before the first reduction. False: the library had no memory. */
bool pairs_open(void)
{
    if (!made)
        made = pmpi.Type_contiguous(2, MPI_INT64_T, &pair_type) == MPI_SUCCESS &&
               pmpi.Type_commit(&pair_type) == MPI_SUCCESS &&
               pmpi.Op_create(reduce, 1, &pair_op) == MPI_SUCCESS;
    return made;
}

/* What is under way still ends. */
void pairs_close(void)
{
    if (!made)
        return;
    pmpi.Type_free(&pair_type);
    pmpi.Op_free(&pair_op);
    made = false;
}

void pairs_reduce(const struct pair *mine, struct pair *all, int count, MPI_Comm comm,
                  MPI_Request *request)
{
    if (pmpi.Iallreduce(mine, all, count, pair_type, pair_op, comm, request) != MPI_SUCCESS)
        *request = MPI_REQUEST_NULL;
}

void pairs_scan(const struct pair *mine, struct pair *all, int count, MPI_Comm comm,
                MPI_Request *request)
{
    if (pmpi.Iscan(mine, all, count, pair_type, pair_op, comm, request) != MPI_SUCCESS)
        *request = MPI_REQUEST_NULL;
}
