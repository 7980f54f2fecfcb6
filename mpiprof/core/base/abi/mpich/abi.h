/* Types and constants of the MPICH ABI (libmpi.so.12) that the recorder uses. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int MPI_Comm;
typedef int MPI_Datatype;
typedef int MPI_Errhandler;
typedef int MPI_Group;
typedef int MPI_Info;
typedef int MPI_Message;
typedef int MPI_Op;
typedef int MPI_Request;
typedef int MPI_Session;
typedef int MPI_Win;
typedef struct ADIOI_FileD *MPI_File;
typedef int MPI_Fint;
typedef long MPI_Aint;
typedef long long MPI_Count;
typedef long long MPI_Offset;
typedef struct MPI_Status MPI_Status;

struct MPI_Status {
    int64_t opaque[4]; /* at least as large as in any library */
};

/* Layout of a status. */
enum { STATUS_BYTES = 20, STATUS_SOURCE = 2, STATUS_TAG = 3 };

#define ABI_NAME "mpich"
#define MPI_COMM_NULL ((MPI_Comm)0x04000000)
#define MPI_COMM_WORLD ((MPI_Comm)0x44000000)
#define MPI_COMM_SELF ((MPI_Comm)0x44000001)
#define MPI_GROUP_NULL ((MPI_Group)0x08000000)
#define MPI_DATATYPE_NULL ((MPI_Datatype)0x0c000000)
#define MPI_BYTE ((MPI_Datatype)0x4c00010d)
#define MPI_DOUBLE ((MPI_Datatype)0x4c00080b)
#define MPI_INT64_T ((MPI_Datatype)0x4c00083a)
#define MPI_DOUBLE_INT ((MPI_Datatype)0x8c000001)
#define MPI_MAX ((MPI_Op)0x58000001)
#define MPI_SUM ((MPI_Op)0x58000003)
#define MPI_MAXLOC ((MPI_Op)0x5800000c)
#define MPI_OP_NULL ((MPI_Op)0x18000000)
#define MPI_ERRORS_RETURN ((MPI_Errhandler)0x54000001)
#define MPI_REQUEST_NULL ((MPI_Request)0x2c000000)
#define MPI_STATUS_IGNORE ((MPI_Status *)1)
#define MPI_IN_PLACE ((void *)-1)

enum {
    MPI_SUCCESS = 0,
    MPI_ANY_SOURCE = -2,
    MPI_ANY_TAG = -1,
    MPI_PROC_NULL = -1,
    MPI_ROOT = -3,
    MPI_UNDEFINED = -32766,
    MPI_THREAD_MULTIPLE = 3,
    MPI_LOCK_EXCLUSIVE = 234,
    MPI_LOCK_SHARED = 235,
    MPI_TAG_UB = 0x64400001,
    MPI_APPNUM = 0x6440000d,
    MPI_COMBINER_NAMED = 1,
    MPI_GRAPH = 1,
    MPI_CART = 2,
    MPI_DIST_GRAPH = 3,
    MPI_ERR_BUFFER = 1,
    MPI_ERR_COUNT = 2,
    MPI_ERR_TYPE = 3,
    MPI_ERR_TAG = 4,
    MPI_ERR_COMM = 5,
    MPI_ERR_RANK = 6,
    MPI_ERR_ROOT = 7,
    MPI_ERR_GROUP = 8,
    MPI_ERR_OP = 9,
    MPI_ERR_TOPOLOGY = 10,
    MPI_ERR_DIMS = 11,
    MPI_ERR_ARG = 12,
    MPI_ERR_TRUNCATE = 14,
    MPI_ERR_OTHER = 15,
    MPI_ERR_INFO = 28,
    MPI_ERR_NO_MEM = 34,
    MPI_ERR_UNSUPPORTED_OPERATION = 44
};
