/* Types and constants of the standard ABI of MPI 5 (libmpi_abi.so.1) that the recorder uses. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Errhandler *MPI_Errhandler;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Info *MPI_Info;
typedef struct MPI_ABI_Message *MPI_Message;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Session *MPI_Session;
typedef struct MPI_ABI_Win *MPI_Win;
typedef struct MPI_ABI_File *MPI_File;
typedef int MPI_Fint;
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Count;
typedef int64_t MPI_Offset;
typedef struct MPI_Status MPI_Status;

struct MPI_Status {
    int64_t opaque[4]; /* at least as large as in any library */
};

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
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)
#define MPI_IN_PLACE ((void *)1)

enum {
    MPI_SUCCESS = 0,
    MPI_PROC_NULL = -3,
    MPI_ROOT = -4,
    MPI_UNDEFINED = -32766,
    MPI_THREAD_MULTIPLE = 4096,
    MPI_TAG_UB = 501,
    MPI_APPNUM = 505,
    MPI_COMBINER_NAMED = 101,
    MPI_CART = 211,
    MPI_GRAPH = 212,
    MPI_DIST_GRAPH = 213,
    MPI_ERR_BUFFER = 1,
    MPI_ERR_COUNT = 2,
    MPI_ERR_TYPE = 3,
    MPI_ERR_TAG = 4,
    MPI_ERR_COMM = 5,
    MPI_ERR_RANK = 6,
    MPI_ERR_ROOT = 8,
    MPI_ERR_GROUP = 9,
    MPI_ERR_OP = 10,
    MPI_ERR_TOPOLOGY = 11,
    MPI_ERR_DIMS = 12,
    MPI_ERR_ARG = 13,
    MPI_ERR_TRUNCATE = 15,
    MPI_ERR_OTHER = 16,
    MPI_ERR_INFO = 34,
    MPI_ERR_NO_MEM = 39,
    MPI_ERR_UNSUPPORTED_OPERATION = 55
};
