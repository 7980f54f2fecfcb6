/* Neighbours in a communicator's topology, for the tables. */
#include <stdlib.h>
#include <string.h>

#include "base/pmpi.h"
#include "record/communicator.h"

static void ranks_add(struct text *t, const char *name, const int *ranks, int count)
{
    const char *comma = "";

    text_add(t, ", \"%s\": [", name);
    for (int i = 0; i < count; i++)
        if (ranks[i] != MPI_PROC_NULL) {
            text_add(t, "%s%d", comma, ranks[i]);
            comma = ", ";
        }
    text_add(t, "]");
}

static void cart_neighbours(MPI_Comm comm, int degree, int *in, int *out)
{
    for (int i = 0; i < degree / 2; i++) {
        int lower = MPI_PROC_NULL, upper = MPI_PROC_NULL;

        pmpi.Cart_shift(comm, i, 1, &lower, &upper);
        in[2 * i] = out[2 * i] = lower;
        in[2 * i + 1] = out[2 * i + 1] = upper;
    }
}

struct topology topology_write(struct text *t, MPI_Comm comm, int rank)
{
    struct topology n = {0};
    int kind = MPI_UNDEFINED, weighted = 0;

    if (pmpi.Topo_test(comm, &kind) != MPI_SUCCESS || kind == MPI_UNDEFINED)
        return n;
    if (kind == MPI_CART && pmpi.Cartdim_get(comm, &n.indegree) == MPI_SUCCESS)
        n.indegree = n.outdegree = 2 * n.indegree;
    else if (kind == MPI_GRAPH)
        pmpi.Graph_neighbors_count(comm, rank, &n.indegree);
    else if (kind == MPI_DIST_GRAPH)
        pmpi.Dist_graph_neighbors_count(comm, &n.indegree, &n.outdegree, &weighted);
    if (kind == MPI_GRAPH)
        n.outdegree = n.indegree;
    const size_t degrees = (size_t)(n.indegree + n.outdegree) + 2;
    int *const ranks = calloc(2 * degrees, sizeof *ranks);

    if (ranks == NULL)
        return n;
    int *const out = ranks + n.indegree + 1, *const weights = ranks + degrees;
    if (kind == MPI_CART)
        cart_neighbours(comm, n.indegree, ranks, out);
    else if (kind == MPI_GRAPH && pmpi.Graph_neighbors(comm, rank, n.indegree, ranks) == 0)
        memcpy(out, ranks, sizeof *ranks * (size_t)n.indegree);
    else if (kind == MPI_DIST_GRAPH)
        pmpi.Dist_graph_neighbors(comm, n.indegree, ranks, weights, n.outdegree, out,
                                  weights + n.indegree + 1);
    ranks_add(t, "sources", ranks, n.indegree);
    ranks_add(t, "destinations", out, n.outdegree);
    free(ranks);
    return n;
}
