/* X-list of the blocking and nonblocking collectives, for shims that wrap all of them.
 *
 * X(blocking, nonblocking, awaited ranks, root, parameters, arguments) */
#pragma once

#define P(...) __VA_ARGS__
#define ONE_TO_ONE P(const void *sb, int sc, MPI_Datatype st, void *rb, int rc, MPI_Datatype rt, )
#define ONE_TO_MANY                                                                                \
    P(const void *sb, int sc, MPI_Datatype st, void *rb, const int rc[], const int rd[],           \
      MPI_Datatype rt, )
#define MANY_TO_ONE                                                                                \
    P(const void *sb, const int sc[], const int sd[], MPI_Datatype st, void *rb, int rc,           \
      MPI_Datatype rt, )
#define MANY_TO_MANY                                                                               \
    P(const void *sb, const int sc[], const int sd[], MPI_Datatype st, void *rb, const int rc[],   \
      const int rd[], MPI_Datatype rt, )
#define TYPES_TO_TYPES(displacement)                                                               \
    P(const void *sb, const int sc[], const displacement sd[], const MPI_Datatype st[], void *rb,  \
      const int rc[], const displacement rd[], const MPI_Datatype rt[], )
#define REDUCTION P(const void *sb, void *rb, int n, MPI_Datatype t, MPI_Op op, )

#define COLLECTIVES(X)                                                                             \
    X(Allgather, Iallgather, ALL, -1, ONE_TO_ONE, P(sb, sc, st, rb, rc, rt, ))                     \
    X(Allgatherv, Iallgatherv, ALL, -1, ONE_TO_MANY, P(sb, sc, st, rb, rc, rd, rt, ))              \
    X(Allreduce, Iallreduce, ALL, -1, REDUCTION, P(sb, rb, n, t, op, ))                            \
    X(Alltoall, Ialltoall, ALL, -1, ONE_TO_ONE, P(sb, sc, st, rb, rc, rt, ))                       \
    X(Alltoallv, Ialltoallv, ALL, -1, MANY_TO_MANY, P(sb, sc, sd, st, rb, rc, rd, rt, ))           \
    X(Alltoallw, Ialltoallw, ALL, -1, TYPES_TO_TYPES(int), P(sb, sc, sd, st, rb, rc, rd, rt, ))    \
    X(Barrier, Ibarrier, ALL, -1, P(), P())                                                        \
    X(Bcast, Ibcast, FROM_ROOT, root, P(void *b, int n, MPI_Datatype t, int root, ),               \
      P(b, n, t, root, ))                                                                          \
    X(Exscan, Iexscan, PREFIX, -1, REDUCTION, P(sb, rb, n, t, op, ))                               \
    X(Gather, Igather, TO_ROOT, root, P(ONE_TO_ONE int root, ), P(sb, sc, st, rb, rc, rt, root, )) \
    X(Gatherv, Igatherv, TO_ROOT, root, P(ONE_TO_MANY int root, ),                                 \
      P(sb, sc, st, rb, rc, rd, rt, root, ))                                                       \
    X(Reduce, Ireduce, TO_ROOT, root, P(REDUCTION int root, ), P(sb, rb, n, t, op, root, ))        \
    X(Reduce_scatter, Ireduce_scatter, ALL, -1,                                                    \
      P(const void *sb, void *rb, const int n[], MPI_Datatype t, MPI_Op op, ),                     \
      P(sb, rb, n, t, op, ))                                                                       \
    X(Reduce_scatter_block, Ireduce_scatter_block, ALL, -1, REDUCTION, P(sb, rb, n, t, op, ))      \
    X(Scan, Iscan, PREFIX, -1, REDUCTION, P(sb, rb, n, t, op, ))                                   \
    X(Scatter, Iscatter, FROM_ROOT, root, P(ONE_TO_ONE int root, ),                                \
      P(sb, sc, st, rb, rc, rt, root, ))                                                           \
    X(Scatterv, Iscatterv, FROM_ROOT, root, P(MANY_TO_ONE int root, ),                             \
      P(sb, sc, sd, st, rb, rc, rt, root, ))                                                       \
    X(Neighbor_allgather, Ineighbor_allgather, SOURCES, -1, ONE_TO_ONE,                            \
      P(sb, sc, st, rb, rc, rt, ))                                                                 \
    X(Neighbor_allgatherv, Ineighbor_allgatherv, SOURCES, -1, ONE_TO_MANY,                         \
      P(sb, sc, st, rb, rc, rd, rt, ))                                                             \
    X(Neighbor_alltoall, Ineighbor_alltoall, SOURCES, -1, ONE_TO_ONE, P(sb, sc, st, rb, rc, rt, )) \
    X(Neighbor_alltoallv, Ineighbor_alltoallv, SOURCES, -1, MANY_TO_MANY,                          \
      P(sb, sc, sd, st, rb, rc, rd, rt, ))                                                         \
    X(Neighbor_alltoallw, Ineighbor_alltoallw, SOURCES, -1, TYPES_TO_TYPES(MPI_Aint),              \
      P(sb, sc, sd, st, rb, rc, rd, rt, ))
