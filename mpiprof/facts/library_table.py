"""Table of the MPI libraries' algorithms for blocking collectives.

Open MPI's are from its component tuned, with the names and numbers of
`coll_tuned_<operation>_algorithm` (5.0.11). MPICH's are from
`MPIR_CVAR_<OPERATION>_INTRA_ALGORITHM` (5.0.2), which has names but no numbers. Intel MPI's are the
numbers of `I_MPI_ADJUST_<OPERATION>` (reference of 2019 and 2020), with short names by mpiprof.

For Open MPI and MPICH, equality with an mpiprof algorithm was determined by comparing the messages
and bytes from each process to each other with those of the schedules, on 2 to 8 and on 2 to 6
processes. For Intel MPI, equality follows from the names.
"""

from __future__ import annotations

OPENMPI, MPICH, INTEL = "openmpi", "mpich", "intel"

FOLDS_OTHERS = "other processes fold in where their number is no power of two"
FAR_FIRST = "the first exchange is with the process farthest away, ours with the next one"
ALL_BLOCKS = "blocks go also to processes that have them already"
OTHER_CHILDREN = "a process's children are served in another numbering"
SENDS_PIECES = "blocks of more than 32 KB go in pieces"
TO_ITSELF = "a process's message to itself goes through the library"

# Open MPI's algorithms that send segments of a configurable size.
SEGMENTED_NAMES = {
    "allreduce": "segmented_ring",
    "bcast": "chain pipeline split_binary_tree binary_tree binomial knomial",
    "reduce": "chain pipeline binary binomial in-order_binary",
}

# Algorithms that mpiprof never selects. `ccl` needs another library, and `smp` several nodes.
# WRONG_RESULTS lists algorithms that compute a wrong result or crash on valid input (Open MPI
# 5.0.11 and MPICH 5.0.2). Open MPI's reduce_scatter `non-overlapping` changes elements behind its
# result under MPI_IN_PLACE. The library's own choice leaves them unchanged, and mpi4py's tests
# check that.
NOT_SELECTABLE = ("ccl", "smp")
WRONG_RESULTS = {
    (OPENMPI, "allgather"): "sparbit",
    (OPENMPI, "reduce_scatter"): "non-overlapping",
    (MPICH, "allgather"): "recexch_doubling recexch_halving",
    (MPICH, "alltoall"): "k_brucks",
    (MPICH, "reduce_scatter"): "noncommutative pairwise",
    (MPICH, "reduce_scatter_block"): "noncommutative",
}

# Similar mpiprof algorithms for algorithms without an equal, for predictions of the time.
SIMILAR_NAMES = {
    (OPENMPI, "allgather"): "two_proc:ring",
    (OPENMPI, "allreduce"): "nonoverlapping:binary_tree ring:ring segmented_ring:ring",
    (OPENMPI, "alltoall"): "linear_sync:simple two_proc:ring",
    (OPENMPI, "barrier"): "recursive_doubling:dissemination two_proc:dissemination",
    (OPENMPI, "bcast"): "chain:chain split_binary_tree:chain binary_tree:binomial knomial:binomial",
    (OPENMPI, "gather"): "linear_sync:linear",
    (OPENMPI, "reduce"): "binary:binary_tree in-order_binary:binary_tree",
    (OPENMPI, "reduce_scatter"): "ring:pairwise butterfly:recursive_halving",
    (OPENMPI, "reduce_scatter_block"): "butterfly:recursive_halving",
    (OPENMPI, "scatter"): "linear_nb:linear",
    (MPICH, "allreduce"): "recursive_multiplying:recursive_doubling recexch:recursive_doubling "
    "reduce_scatter_allgather:halving_doubling k_reduce_scatter_allgather:halving_doubling "
    "tree:binary_tree ring:ring",
    (MPICH, "barrier"): "recexch:dissemination",
    (MPICH, "bcast"): "scatter_recursive_doubling_allgather:scatter_allgather_doubling "
    "scatter_ring_allgather:scatter_allgather_ring pipelined_tree:chain tree:binomial",
    (MPICH, "reduce"): "reduce_scatter_gather:halving_doubling",
}

# operation: rows of (name, equal mpiprof algorithm, difference, needs with "!" if unchecked). A
# row's position is the library's number.
ALGORITHM_ROWS = {
    OPENMPI: {
        "allgather": (
            ("linear", "", "", ""),
            ("bruck", "bruck", "", ""),
            ("recursive_doubling", "recursive_doubling", "", "pow2"),
            ("ring", "ring", "", ""),
            ("neighbor", "neighbour_exchange", "", "even"),
            ("two_proc", "", "", "!two"),
            ("sparbit", "", "", ""),
        ),
        "allgatherv": (
            ("default", "", "", ""),
            ("bruck", "", "", ""),
            ("ring", "linear_ring", "", ""),
            ("neighbor", "", "", "even"),
            ("two_proc", "", "", "!two"),
            ("sparbit", "", "", ""),
        ),
        "allreduce": (
            ("basic_linear", "", "", ""),
            ("nonoverlapping", "", "", ""),
            ("recursive_doubling", "recursive_doubling", FOLDS_OTHERS, ""),
            ("ring", "", "", "!commutes elements"),
            ("segmented_ring", "", "", "!commutes elements"),
            ("rabenseifner", "halving_doubling", "", "commutes half_elements"),
        ),
        "alltoall": (
            ("linear", "simple", "", ""),
            ("pairwise", "ring", "", ""),
            ("modified_bruck", "bruck", "", ""),
            ("linear_sync", "", "", ""),
            ("two_proc", "", "", "!two"),
        ),
        "alltoallv": (("basic_linear", "simple", "", ""), ("pairwise", "ring", TO_ITSELF, "")),
        "barrier": (
            ("linear", "linear", "", ""),
            ("double_ring", "", "", ""),
            ("recursive_doubling", "", "", ""),
            ("bruck", "dissemination", "", ""),
            ("two_proc", "", "", "!two"),
            ("tree", "tournament", "", ""),
        ),
        "bcast": (
            ("basic_linear", "flat_tree", "", ""),
            ("chain", "", "", ""),
            ("pipeline", "chain", "", ""),
            ("split_binary_tree", "", "", ""),
            ("binary_tree", "", "", ""),
            ("binomial", "binomial", "", ""),
            ("knomial", "", "", ""),
            ("scatter_allgather", "scatter_allgather_doubling", ALL_BLOCKS, "elements"),
            ("scatter_allgather_ring", "scatter_allgather_ring", ALL_BLOCKS, "elements"),
        ),
        "gather": (
            ("basic_linear", "linear", "", ""),
            ("binomial", "binomial", "", ""),
            ("linear_sync", "", "", ""),
        ),
        "reduce": (
            ("linear", "", "", ""),
            ("chain", "", "", "!commutes"),
            ("pipeline", "", "", "!commutes"),
            ("binary", "", "", "!commutes"),
            ("binomial", "binary_tree", "", "!commutes"),
            ("in-order_binary", "", "", ""),
            ("rabenseifner", "halving_doubling", "", "commutes half_elements"),
        ),
        "reduce_scatter": (
            ("non-overlapping", "", "", ""),
            ("recursive_halving", "recursive_halving", FAR_FIRST, "!commutes"),
            ("ring", "", "", "!commutes"),
            ("butterfly", "", "", ""),
        ),
        "reduce_scatter_block": (
            ("basic_linear", "", "", ""),
            ("recursive_doubling", "", "", ""),
            ("recursive_halving", "recursive_halving", FAR_FIRST, "commutes"),
            ("butterfly", "", "", ""),
        ),
        "scatter": (
            ("basic_linear", "linear", "", ""),
            ("binomial", "binomial", "", ""),
            ("linear_nb", "", "", ""),
        ),
    },
    MPICH: {
        "allgather": (
            ("brucks", "bruck", "", ""),
            ("k_brucks", "", "", ""),
            ("nb", "", "", ""),
            ("recursive_doubling", "recursive_doubling", "", "!pow2"),
            ("ring", "ring", "", ""),
            ("recexch_doubling", "", "", ""),
            ("recexch_halving", "", "", ""),
        ),
        "allgatherv": (
            ("brucks", "", "", ""),
            ("nb", "", "", ""),
            ("recursive_doubling", "", "", "!pow2"),
            ("ring", "linear_ring", SENDS_PIECES, ""),
        ),
        "allreduce": (
            ("nb", "", "", ""),
            ("smp", "", "", "commutes parent"),
            ("recursive_doubling", "recursive_doubling", FOLDS_OTHERS, ""),
            ("recursive_multiplying", "", "", "commutes"),
            ("reduce_scatter_allgather", "", "", "half_elements builtin"),
            ("tree", "", "", ""),
            ("recexch", "", "", ""),
            ("ring", "", "", "commutes"),
            ("k_reduce_scatter_allgather", "", "", "commutes"),
            ("ccl", "", "", ""),
        ),
        "alltoall": (
            ("brucks", "bruck", "", "not_in_place"),
            ("k_brucks", "", "", "not_in_place"),
            ("nb", "", "", ""),
            ("pairwise", "pair:pow2 ring:other", "", "not_in_place"),
            ("pairwise_sendrecv_replace", "", "", "in_place"),
            ("scattered", "simple", "", "not_in_place"),
        ),
        "alltoallv": (
            ("nb", "", "", ""),
            ("pairwise_sendrecv_replace", "", "", "in_place"),
            ("scattered", "simple", "", "not_in_place"),
        ),
        "barrier": (
            ("nb", "", "", ""),
            ("smp", "", "", "parent"),
            ("k_dissemination", "dissemination", "", ""),
            ("recexch", "", "", ""),
        ),
        "bcast": (
            ("binomial", "binomial", OTHER_CHILDREN, ""),
            ("nb", "", "", ""),
            ("smp", "", "", "parent"),
            ("scatter_recursive_doubling_allgather", "", "", ""),
            ("scatter_ring_allgather", "", "", ""),
            ("pipelined_tree", "", "", ""),
            ("tree", "", "", ""),
        ),
        "gather": (("binomial", "binomial", "", ""), ("nb", "", "", "")),
        "gatherv": (("linear", "", "", ""), ("nb", "", "", "")),
        "reduce": (
            ("binomial", "binary_tree", "", ""),
            ("nb", "", "", ""),
            ("smp", "", "", "commutes parent"),
            ("reduce_scatter_gather", "", "", "half_elements builtin"),
        ),
        "reduce_scatter": (
            ("nb", "", "", ""),
            ("noncommutative", "", "", "!pow2 !regular"),
            ("pairwise", "pairwise", "", "commutes"),
            ("recursive_doubling", "", "", ""),
            ("recursive_halving", "recursive_halving", FAR_FIRST, "commutes"),
        ),
        "reduce_scatter_block": (
            ("noncommutative", "", "", "!pow2"),
            ("recursive_doubling", "", "", ""),
            ("pairwise", "pairwise", "", "commutes"),
            ("recursive_halving", "recursive_halving", FAR_FIRST, "commutes"),
            ("nb", "", "", ""),
        ),
        "scatter": (("binomial", "binomial", "", ""), ("nb", "", "", "")),
        "scatterv": (("linear", "", "", ""), ("nb", "", "", "")),
    },
    INTEL: {
        "allgather": (
            ("recursive_doubling", "recursive_doubling", "", "pow2"),
            ("bruck", "bruck", "", ""),
            ("ring", "ring", "", ""),
        ),
        "allgatherv": (
            ("recursive_doubling", "", "", ""),
            ("bruck", "", "", ""),
            ("ring", "linear_ring", "", ""),
        ),
        "allreduce": (
            ("recursive_doubling", "recursive_doubling", FOLDS_OTHERS, ""),
            ("rabenseifner", "halving_doubling", "", "commutes half_elements"),
        ),
        "alltoall": (("bruck", "bruck", "", ""), ("isend_irecv", "simple", "", "")),
        "alltoallv": (("isend_irecv", "simple", "", ""),),
        "barrier": (("dissemination", "dissemination", "", ""),),
        "bcast": (("binomial", "binomial", "", ""),),
        "gather": (("binomial", "binomial", "", ""),),
        "reduce": (("shumilin", "", "", ""), ("binomial", "binary_tree", "", "")),
        "reduce_scatter": (
            ("recursive_halving", "recursive_halving", FAR_FIRST, "commutes"),
            ("pairwise", "pairwise", "", "commutes"),
        ),
        "scatter": (("binomial", "binomial", "", ""),),
    },
}
