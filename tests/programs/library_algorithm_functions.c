/* Preloaded: records which of Open MPI's algorithms a collective calls. library_algorithm_calls.c
 * reads the result.
 *
 * Open MPI's libraries export the algorithms and call them by name. Each wrapper forwards the
 * maximum number of arguments, whatever the function takes. An algorithm that falls back to
 * another calls it before anything is sent, so the last function of an operation counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

enum { MOST = 64 };

const char *own_called[MOST];
int own_calls;

typedef long any(long, long, long, long, long, long, long, long, long, long, long, long);

#define FUNCTION(name)                                                                             \
    long ompi_coll_base_##name(long a, long b, long c, long d, long e, long f, long g, long h,     \
                               long i, long j, long k, long l)                                     \
    {                                                                                              \
        static any *next;                                                                          \
                                                                                                   \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, "ompi_coll_base_" #name);                           \
        if (own_calls < MOST)                                                                      \
            own_called[own_calls++] = #name;                                                       \
        return next(a, b, c, d, e, f, g, h, i, j, k, l);                                           \
    }

FUNCTION(allgather_intra_basic_linear)
FUNCTION(allgather_intra_bruck)
FUNCTION(allgather_intra_recursivedoubling)
FUNCTION(allgather_intra_ring)
FUNCTION(allgather_intra_neighborexchange)
FUNCTION(allgather_intra_two_procs)
FUNCTION(allgather_intra_sparbit)
FUNCTION(allgatherv_intra_basic_default)
FUNCTION(allgatherv_intra_bruck)
FUNCTION(allgatherv_intra_ring)
FUNCTION(allgatherv_intra_neighborexchange)
FUNCTION(allgatherv_intra_two_procs)
FUNCTION(allgatherv_intra_sparbit)
FUNCTION(allreduce_intra_basic_linear)
FUNCTION(allreduce_intra_nonoverlapping)
FUNCTION(allreduce_intra_recursivedoubling)
FUNCTION(allreduce_intra_ring)
FUNCTION(allreduce_intra_ring_segmented)
FUNCTION(allreduce_intra_redscat_allgather)
FUNCTION(alltoall_intra_basic_linear)
FUNCTION(alltoall_intra_pairwise)
FUNCTION(alltoall_intra_bruck)
FUNCTION(alltoall_intra_linear_sync)
FUNCTION(alltoall_intra_two_procs)
FUNCTION(alltoallv_intra_basic_linear)
FUNCTION(alltoallv_intra_pairwise)
FUNCTION(barrier_intra_basic_linear)
FUNCTION(barrier_intra_doublering)
FUNCTION(barrier_intra_recursivedoubling)
FUNCTION(barrier_intra_bruck)
FUNCTION(barrier_intra_two_procs)
FUNCTION(barrier_intra_tree)
FUNCTION(bcast_intra_basic_linear)
FUNCTION(bcast_intra_chain)
FUNCTION(bcast_intra_pipeline)
FUNCTION(bcast_intra_split_bintree)
FUNCTION(bcast_intra_bintree)
FUNCTION(bcast_intra_binomial)
FUNCTION(bcast_intra_knomial)
FUNCTION(bcast_intra_scatter_allgather)
FUNCTION(bcast_intra_scatter_allgather_ring)
FUNCTION(gather_intra_basic_linear)
FUNCTION(gather_intra_binomial)
FUNCTION(gather_intra_linear_sync)
FUNCTION(reduce_intra_basic_linear)
FUNCTION(reduce_intra_chain)
FUNCTION(reduce_intra_pipeline)
FUNCTION(reduce_intra_binary)
FUNCTION(reduce_intra_binomial)
FUNCTION(reduce_intra_in_order_binary)
FUNCTION(reduce_intra_redscat_gather)
FUNCTION(reduce_scatter_intra_nonoverlapping)
FUNCTION(reduce_scatter_intra_basic_recursivehalving)
FUNCTION(reduce_scatter_intra_ring)
FUNCTION(reduce_scatter_intra_butterfly)
FUNCTION(reduce_scatter_block_basic_linear)
FUNCTION(reduce_scatter_block_intra_recursivedoubling)
FUNCTION(reduce_scatter_block_intra_recursivehalving)
FUNCTION(reduce_scatter_block_intra_butterfly)
FUNCTION(scatter_intra_basic_linear)
FUNCTION(scatter_intra_binomial)
FUNCTION(scatter_intra_linear_nb)
