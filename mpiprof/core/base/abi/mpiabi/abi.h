/* Types and constants of the standard ABI of MPI 5 (libmpi_abi.so.1) that the recorder uses. */
#pragma once
#include "../pointer_handles.h"

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;
typedef int64_t MPI_Offset;

enum { STATUS_BYTES = 32 };

#define ABI_NAME "mpiabi"
#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_SELF ((MPI_Comm)0x102)
#define MPI_GROUP_NULL ((MPI_Group)0x108)
#define MPI_DATATYPE_NULL ((MPI_Datatype)0x200)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_INT64_T ((MPI_Datatype)0x258)
#define MPI_DOUBLE_INT ((MPI_Datatype)0x229)
#define MPI_MAX ((MPI_Op)0x23)
#define MPI_SUM ((MPI_Op)0x21)
#define MPI_MAXLOC ((MPI_Op)0x39)
#define MPI_OP_NULL ((MPI_Op)0x20)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x143)
#define MPI_REQUEST_NULL ((MPI_Request)0x180)

enum {
    MPI_ANY_SOURCE = -1,
    MPI_ANY_TAG = -2,
    MPI_PROC_NULL = -3,
    MPI_THREAD_MULTIPLE = 4096,
    MPI_LOCK_EXCLUSIVE = 301,
    MPI_LOCK_SHARED = 302,
    MPI_TAG_UB = 501,
    MPI_APPNUM = 505,
    MPI_COMBINER_NAMED = 101,
    MPI_CART = 211,
    MPI_GRAPH = 212,
    MPI_DIST_GRAPH = 213,
    MPI_ERR_UNSUPPORTED_OPERATION = 55
};
