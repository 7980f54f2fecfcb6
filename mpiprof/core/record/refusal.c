/* Detection of calls that the library rejected in its local argument check.
 *
 * A rejected call has taken part in nothing, so it must not count on this rank. Any other call that
 * fails counts on all members. The error class after communication is local: MPI_Comm_connect to an
 * unknown port returns MPI_ERR_OTHER at the root and MPI_ERR_PORT elsewhere. MPI_Intercomm_merge
 * returns MPI_ERR_ARG after the members have compared their arguments. So for calls that create
 * communicators this file ignores the class and repeats the library's check of their arguments. A
 * wrong argument that is not checked here counts.
 *
 * Collectives, and calls on windows and files, are different: libraries report the classes below
 * only before the first message of these calls. If members disagree on sizes, types or roots, MPICH
 * 5.0 and Open MPI 5.0 report MPI_ERR_TRUNCATE or an internal error.
 *
 * Threads: any, after an error.
 */
#include "record/communicator.h"

#include <string.h>

#include "base/pmpi.h"

bool refusal_is_by_class(int error)
{
    static const int classes[] = {MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE,
                                  MPI_ERR_TAG,    MPI_ERR_COMM,  MPI_ERR_RANK,
                                  MPI_ERR_ROOT,   MPI_ERR_OP,    MPI_ERR_TOPOLOGY,
                                  MPI_ERR_ARG,    MPI_ERR_INFO,  MPI_ERR_UNSUPPORTED_OPERATION,
                                  MPI_ERR_GROUP,  MPI_ERR_DIMS};
    int class = error;

    pmpi.Error_class(error, &class);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (class == classes[i])
            return true;
    return false;
}

/* ---- arguments of calls that create communicators */

static bool is_rank(int value, int size)
{
    return value >= 0 && value < size;
}

/* NULL with a count of 0 is a valid list. */
static bool are_ranks(const int *values, int64_t count, int size)
{
    if (count < 0 || (values == NULL && count > 0))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!is_rank(values[i], size))
            return false;
    return true;
}

/* Return true if a grid has at most as many processes as the communicator. */
static bool grid_fits(const struct creation_arguments *a, int size)
{
    int64_t processes = 1;

    if (*a->ndims < 0 || (a->dims == NULL && *a->ndims > 0))
        return false;
    for (int i = 0; i < *a->ndims; i++) {
        if (a->dims[i] < 0)
            return false;
        processes *= a->dims[i];
        if (processes > size)
            return false;
    }
    return true;
}

static bool graph_fits(const struct creation_arguments *a, int size)
{
    const int nodes = *a->nnodes;
    int64_t before = 0;

    if (nodes < 0 || nodes > size || (nodes > 0 && (a->index == NULL || a->edges == NULL)))
        return false;
    for (int i = 0; i < nodes; i++) {
        if (a->index[i] < before)
            return false;
        before = a->index[i];
    }
    return are_ranks(a->edges, before, nodes);
}

static bool edges_fit(const struct creation_arguments *a, int size)
{
    int64_t edges = 0;

    if (!are_ranks(a->sources, *a->n, size) || (a->degrees == NULL && *a->n > 0))
        return false;
    for (int i = 0; i < *a->n; i++) {
        if (a->degrees[i] < 0)
            return false;
        edges += a->degrees[i];
    }
    return are_ranks(a->destinations, edges, size);
}

/* Return true if the call accepts the parent: most calls require an intra-communicator. */
static bool parent_fits(const struct creation *c)
{
    int topology = MPI_UNDEFINED;

    if (strcmp(c->how, "cart_sub") == 0)
        return pmpi.Topo_test(c->parent_handle, &topology) == MPI_SUCCESS && topology == MPI_CART;
    if (strcmp(c->how, "intercomm_merge") == 0)
        return c->parent->inter;
    return !c->parent->inter || strstr(c->how, "dup") != NULL || strncmp(c->how, "split", 5) == 0 ||
           strcmp(c->how, "create") == 0;
}

static bool arguments_fit(const struct creation *c)
{
    const struct creation_arguments *const a = &c->given;
    const int size = c->parent->size;

    return !a->result_is_null && parent_fits(c) &&
           (a->group == NULL || *a->group != MPI_GROUP_NULL) &&
           (a->root == NULL || is_rank(*a->root, size)) &&
           (a->local_leader == NULL || is_rank(*a->local_leader, size)) &&
           (a->color == NULL || *a->color >= 0 || *a->color == MPI_UNDEFINED) &&
           (a->ndims == NULL || grid_fits(a, size)) && (a->nnodes == NULL || graph_fits(a, size)) &&
           (a->n == NULL || edges_fit(a, size)) &&
           (a->indegree == NULL || are_ranks(a->sources, *a->indegree, size)) &&
           (a->outdegree == NULL || are_ranks(a->destinations, *a->outdegree, size));
}

/* Return true if a failed call was rejected. Windows and files are created on an entry without a
 * handle (window_file_comm.c). */
bool refusal_is_of_creation(const struct creation *c, int error)
{
    return c->parent->handle == MPI_COMM_NULL ? refusal_is_by_class(error) : !arguments_fit(c);
}
