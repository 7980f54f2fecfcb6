/* Nonblocking reduction of pairs: the sum of the first members and the maximum of the second ones.
 *
 * One reduction replaces two library reductions. Each reduction sends some small messages within
 * the program's own calls, and their length hardly matters. The operation is elementwise, so the
 * library may split the vector.
 */
#include "base/pmpi.h"
#include "selection/online/arrival.h"

static MPI_Datatype pair_type;
static MPI_Op pair_op;
static bool made;

static void pairs_combine(void *in, void *inout, int *count, MPI_Datatype *type)
{
    const struct sum_max *const a = in;
    struct sum_max *const b = inout;

    (void)type;
    for (int i = 0; i < *count; i++) {
        /* may wrap around (arrival.c) */
        b[i].sum = (int64_t)((uint64_t)a[i].sum + (uint64_t)b[i].sum);
        b[i].most = a[i].most > b[i].most ? a[i].most : b[i].most;
    }
}

/* Create the datatype and the operation on all ranks before the first reduction. Returns false if
 * the library has no memory. */
bool sum_max_reduce_open(void)
{
    if (!made)
        made = pmpi.Type_contiguous(2, MPI_INT64_T, &pair_type) == MPI_SUCCESS &&
               pmpi.Type_commit(&pair_type) == MPI_SUCCESS &&
               pmpi.Op_create(pairs_combine, 1, &pair_op) == MPI_SUCCESS;
    return made;
}

/* Active reductions still complete. */
void sum_max_reduce_close(void)
{
    if (!made)
        return;
    pmpi.Type_free(&pair_type);
    pmpi.Op_free(&pair_op);
    made = false;
}

void sum_max_reduce_start(const struct sum_max *mine, struct sum_max *all, int count, bool scans,
                          MPI_Comm comm, MPI_Request *request)
{
    const int error = scans ? pmpi.Iscan(mine, all, count, pair_type, pair_op, comm, request)
                            : pmpi.Iallreduce(mine, all, count, pair_type, pair_op, comm, request);

    if (error != MPI_SUCCESS)
        *request = MPI_REQUEST_NULL;
}
