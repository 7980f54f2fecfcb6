/* Types and constants of Open MPI's ABI (libmpi.so.40) that the recorder uses.
 *
 * Open MPI's predefined handles are addresses of data symbols. A preloaded library that referenced
 * these symbols would prevent every program without MPI from starting. So they are looked up at
 * MPI_Init.
 */
#pragma once
#include "../pointer_handles.h"

typedef ptrdiff_t MPI_Aint;
typedef long long MPI_Count;
typedef long long MPI_Offset;

enum { STATUS_BYTES = 24 };

#define ABI_NAME "openmpi"
#define PREDEFINED_HANDLES(X)                                                                      \
    X(comm_null)                                                                                   \
    X(comm_world)                                                                                  \
    X(comm_self)                                                                                   \
    X(group_null)                                                                                  \
    X(datatype_null)                                                                               \
    X(byte)                                                                                        \
    X(double)                                                                                      \
    X(int64_t)                                                                                     \
    X(double_int)                                                                                  \
    X(errors_return)                                                                               \
    X(op_null)                                                                                     \
    X(op_max)                                                                                      \
    X(op_sum)                                                                                      \
    X(op_maxloc)

#define MEMBER(name) void *mpi_##name;
struct predefined {
    PREDEFINED_HANDLES(MEMBER) void *request_null;
};
#undef MEMBER
extern struct predefined predefined;

#define MPI_COMM_NULL ((MPI_Comm)predefined.mpi_comm_null)
#define MPI_COMM_WORLD ((MPI_Comm)predefined.mpi_comm_world)
#define MPI_COMM_SELF ((MPI_Comm)predefined.mpi_comm_self)
#define MPI_GROUP_NULL ((MPI_Group)predefined.mpi_group_null)
#define MPI_DATATYPE_NULL ((MPI_Datatype)predefined.mpi_datatype_null)
#define MPI_BYTE ((MPI_Datatype)predefined.mpi_byte)
#define MPI_DOUBLE ((MPI_Datatype)predefined.mpi_double)
#define MPI_INT64_T ((MPI_Datatype)predefined.mpi_int64_t)
#define MPI_DOUBLE_INT ((MPI_Datatype)predefined.mpi_double_int)
#define MPI_MAX ((MPI_Op)predefined.mpi_op_max)
#define MPI_SUM ((MPI_Op)predefined.mpi_op_sum)
#define MPI_MAXLOC ((MPI_Op)predefined.mpi_op_maxloc)
#define MPI_OP_NULL ((MPI_Op)predefined.mpi_op_null)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)predefined.mpi_errors_return)
#define MPI_REQUEST_NULL ((MPI_Request)predefined.request_null)

enum {
    MPI_FT = 12, /* since 5.0 */
    MPI_ANY_SOURCE = -1,
    MPI_ANY_TAG = -1,
    MPI_PROC_NULL = -2,
    MPI_THREAD_MULTIPLE = 3,
    MPI_LOCK_EXCLUSIVE = 1,
    MPI_LOCK_SHARED = 2,
    MPI_TAG_UB = 0,
    MPI_APPNUM = 4,
    MPI_COMBINER_NAMED = 0,
    MPI_CART = 1,
    MPI_GRAPH = 2,
    MPI_DIST_GRAPH = 3,
    MPI_ERR_UNSUPPORTED_OPERATION = 52
};
