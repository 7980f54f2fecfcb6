/* Types and constants that Open MPI and the standard ABI share: their handles are pointers. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct mpi_comm *MPI_Comm;
typedef struct mpi_datatype *MPI_Datatype;
typedef struct mpi_errhandler *MPI_Errhandler;
typedef struct mpi_group *MPI_Group;
typedef struct mpi_info *MPI_Info;
typedef struct mpi_message *MPI_Message;
typedef struct mpi_op *MPI_Op;
typedef struct mpi_request *MPI_Request;
typedef struct mpi_session *MPI_Session;
typedef struct mpi_win *MPI_Win;
typedef struct mpi_file *MPI_File;
typedef int MPI_Fint;
typedef struct MPI_Status MPI_Status;

struct MPI_Status {
    int64_t opaque[4]; /* at least as large as in any library */
};

/* Beginning of a status. */
enum { STATUS_SOURCE = 0, STATUS_TAG = 1 };

#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_IN_PLACE ((void *)1)

enum {
    MPI_SUCCESS = 0,
    MPI_ROOT = -4,
    MPI_UNDEFINED = -32766,
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
    MPI_ERR_NO_MEM = 39
};
