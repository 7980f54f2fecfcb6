/* The catalogue of algorithms. A new algorithm needs a line here and a cost in the tests
 * (docs/contributing/algorithm.md). The files are named after operations or families. */
#pragma once
#include "schedule/schedule.h"

#define CATALOGUE(X)                                                                               \
    X(alltoall_simple)                                                                             \
    X(alltoall_bruck)                                                                              \
    X(alltoall_pair)                                                                               \
    X(alltoall_ring)                                                                               \
    X(alltoall_pair_one_barrier)                                                                   \
    X(alltoall_ring_one_barrier)                                                                   \
    X(alltoall_pair_light_barrier)                                                                 \
    X(alltoall_ring_light_barrier)                                                                 \
    X(alltoallv_simple)                                                                            \
    X(alltoallv_ring)                                                                              \
    X(alltoallv_ring_one_barrier)                                                                  \
    X(alltoallv_ring_light_barrier)                                                                \
    X(reduce_binary_tree)                                                                          \
    X(reduce_halving_doubling)                                                                     \
    X(reduce_binary_blocks)                                                                        \
    X(reduce_ring)                                                                                 \
    X(reduce_late_last)                                                                            \
    X(allreduce_binary_tree)                                                                       \
    X(allreduce_recursive_doubling)                                                                \
    X(allreduce_halving_doubling)                                                                  \
    X(allreduce_binary_blocks)                                                                     \
    X(allreduce_ring)                                                                              \
    X(allreduce_circulant)                                                                         \
    X(allreduce_late_last)                                                                         \
    X(reduce_scatter_pairwise)                                                                     \
    X(reduce_scatter_recursive_halving)                                                            \
    X(reduce_scatter_block_pairwise)                                                               \
    X(reduce_scatter_block_recursive_halving)                                                      \
    X(inter_allgather_root_gathering_sequential)                                                   \
    X(inter_allgather_root_gathering_concurrent)                                                   \
    X(inter_allgather_root_gathering_best)                                                         \
    X(inter_allgather_kang)                                                                        \
    X(inter_allgather_kang_teams)                                                                  \
    X(inter_allgather_kang_unsegmented)                                                            \
    X(inter_allgather_kang_two_step)                                                               \
    X(inter_allgatherv_root_gathering_sequential)                                                  \
    X(inter_allgatherv_root_gathering_concurrent)                                                  \
    X(inter_allgatherv_root_gathering_ring)                                                        \
    X(inter_allgatherv_root_gathering_best)                                                        \
    X(inter_allgatherv_kang)                                                                       \
    X(inter_allgatherv_kang_unsegmented)                                                           \
    X(inter_allgatherv_kang_two_step)                                                              \
    X(allgather_ring)                                                                              \
    X(allgather_recursive_doubling)                                                                \
    X(allgather_bruck)                                                                             \
    X(allgather_neighbour_exchange)                                                                \
    X(bcast_flat_tree)                                                                             \
    X(bcast_binomial)                                                                              \
    X(bcast_scatter_allgather_doubling)                                                            \
    X(bcast_scatter_allgather_ring)                                                                \
    X(bcast_chain)                                                                                 \
    X(bcast_circulant)                                                                             \
    X(bcast_late_last)                                                                             \
    X(gather_linear)                                                                               \
    X(gather_binomial)                                                                             \
    X(gatherv_linear)                                                                              \
    X(scatter_linear)                                                                              \
    X(scatter_binomial)                                                                            \
    X(scatterv_linear)                                                                             \
    X(barrier_linear)                                                                              \
    X(barrier_dissemination)                                                                       \
    X(barrier_tournament)                                                                          \
    X(allgatherv_linear_ring)                                                                      \
    X(allgatherv_pipelined_ring)

/* Define an entry of the catalogue: ALGORITHM(bcast, chain, ...) is algorithm_bcast_chain, and
 * INTER_ALGORITHM(allgather, kang, ...) is algorithm_inter_allgather_kang. */
#define ALGORITHM(operation_, name_, ...)                                                          \
    const struct algorithm algorithm_##operation_##_##name_ = {                                    \
        .operation = #operation_, .name = #name_, __VA_ARGS__}
#define INTER_ALGORITHM(operation_, name_, ...)                                                    \
    const struct algorithm algorithm_inter_##operation_##_##name_ = {                              \
        .operation = #operation_, .name = #name_, .inter = true, __VA_ARGS__}

#define DECLARE(name) extern const struct algorithm algorithm_##name;
CATALOGUE(DECLARE)
#undef DECLARE

extern const struct algorithm *const catalogue[];
extern const int catalogue_count;
const struct algorithm *catalogue_find(const char *operation, const char *name, bool inter);
