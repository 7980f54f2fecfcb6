/* The PMPI routines that the recorder calls: one list, and a table of pointers.
 *
 * pmpi.c finds them by dlsym in the library that the program has loaded. Some may be missing in an
 * old library; optional routines are checked before use.
 */
#pragma once
#include <stdbool.h>

#include "abi.h"

#define PMPI_REQUIRED(X)                                                                           \
    X(Comm_rank, (MPI_Comm, int *))                                                                \
    X(Comm_size, (MPI_Comm, int *))                                                                \
    X(Comm_remote_size, (MPI_Comm, int *))                                                         \
    X(Comm_test_inter, (MPI_Comm, int *))                                                          \
    X(Comm_group, (MPI_Comm, MPI_Group *))                                                         \
    X(Comm_remote_group, (MPI_Comm, MPI_Group *))                                                  \
    X(Comm_create, (MPI_Comm, MPI_Group, MPI_Comm *))                                              \
    X(Comm_split, (MPI_Comm, int, int, MPI_Comm *))                                                \
    X(Comm_free, (MPI_Comm *))                                                                     \
    X(Comm_get_attr, (MPI_Comm, int, void *, int *))                                               \
    X(Comm_get_name, (MPI_Comm, char *, int *))                                                    \
    X(Group_size, (MPI_Group, int *))                                                              \
    X(Group_translate_ranks, (MPI_Group, int, const int *, MPI_Group, int *))                      \
    X(Group_free, (MPI_Group *))                                                                   \
    X(Topo_test, (MPI_Comm, int *))                                                                \
    X(Cartdim_get, (MPI_Comm, int *))                                                              \
    X(Cart_shift, (MPI_Comm, int, int, int *, int *))                                              \
    X(Graph_neighbors_count, (MPI_Comm, int, int *))                                               \
    X(Graph_neighbors, (MPI_Comm, int, int, int *))                                                \
    X(Dist_graph_neighbors_count, (MPI_Comm, int *, int *, int *))                                 \
    X(Dist_graph_neighbors, (MPI_Comm, int, int *, int *, int, int *, int *))                      \
    X(Type_size_x, (MPI_Datatype, MPI_Count *))                                                    \
    X(Error_class, (int, int *))                                                                   \
    X(Get_library_version, (char *, int *))                                                        \
    X(Initialized, (int *))                                                                        \
    X(Init, (int *, char ***))                                                                     \
    X(Finalize, (void))                                                                            \
    X(Isend, (const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))                 \
    X(Irecv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *))                       \
    X(Send, (const void *, int, MPI_Datatype, int, int, MPI_Comm))                                 \
    X(Recv, (void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *))                         \
    X(Sendrecv, (const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int,   \
                 MPI_Comm, MPI_Status *))                                                          \
    X(Test, (MPI_Request *, int *, MPI_Status *))                                                  \
    X(Wait, (MPI_Request *, MPI_Status *))                                                         \
    X(Cancel, (MPI_Request *))                                                                     \
    X(Request_free, (MPI_Request *))                                                               \
    X(Allgather, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm))           \
    X(Bcast, (void *, int, MPI_Datatype, int, MPI_Comm))                                           \
    X(Reduce_local, (const void *, void *, int, MPI_Datatype, MPI_Op))

#define PMPI_OPTIONAL(X)                                                                           \
    X(Comm_get_parent, (MPI_Comm *))                                                               \
    X(Query_thread, (int *))                                                                       \
    X(Group_from_session_pset, (MPI_Session, const char *, MPI_Group *))                           \
    X(Group_rank, (MPI_Group, int *))

/* Required for the selection of algorithms, which is off if one is missing. */
#define PMPI_SWITCHING(X)                                                                          \
    X(Allreduce, (const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm))                      \
    X(Alltoall, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm))            \
    X(Barrier, (MPI_Comm))                                                                         \
    X(Comm_call_errhandler, (MPI_Comm, int))                                                       \
    X(Comm_create_group, (MPI_Comm, MPI_Group, int, MPI_Comm *))                                   \
    X(Comm_set_errhandler, (MPI_Comm, MPI_Errhandler))                                             \
    X(Group_incl, (MPI_Group, int, const int *, MPI_Group *))                                      \
    X(Gather, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm))         \
    X(Get_elements_x, (const MPI_Status *, MPI_Datatype, MPI_Count *))                             \
    X(Iallreduce, (const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *))      \
    X(Iprobe, (int, int, MPI_Comm, int *, MPI_Status *))                                           \
    X(Iscan, (const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *))           \
    X(Op_create, (void (*)(void *, void *, int *, MPI_Datatype *), int, MPI_Op *))                 \
    X(Op_free, (MPI_Op *))                                                                         \
    X(Pack, (const void *, int, MPI_Datatype, void *, int, int *, MPI_Comm))                       \
    X(Reduce, (const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm))                    \
    X(Reduce_scatter_block, (const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm))           \
    X(Scatter, (const void *, int, MPI_Datatype, void *, int, MPI_Datatype, int, MPI_Comm))        \
    X(Unpack, (const void *, int, int *, void *, int, MPI_Datatype, MPI_Comm))                     \
    X(Type_commit, (MPI_Datatype *))                                                               \
    X(Type_contiguous, (int, MPI_Datatype, MPI_Datatype *))                                        \
    X(Type_create_struct,                                                                          \
      (int, const int *, const MPI_Aint *, const MPI_Datatype *, MPI_Datatype *))                  \
    X(Type_free, (MPI_Datatype *))                                                                 \
    X(Type_get_extent, (MPI_Datatype, MPI_Aint *, MPI_Aint *))                                     \
    X(Type_get_true_extent, (MPI_Datatype, MPI_Aint *, MPI_Aint *))                                \
    X(Type_get_envelope, (MPI_Datatype, int *, int *, int *, int *))

/* Required for access to the library's control variables (mpi_t.c). */
#define PMPI_VARIABLES(X)                                                                          \
    X(T_init_thread, (int, int *))                                                                 \
    X(T_finalize, (void))                                                                          \
    X(T_cvar_get_num, (int *))                                                                     \
    X(T_cvar_get_info,                                                                             \
      (int, char *, int *, int *, MPI_Datatype *, void **, char *, int *, int *, int *))           \
    X(T_cvar_get_index, (const char *, int *))                                                     \
    X(T_cvar_handle_alloc, (int, void *, void **, int *))                                          \
    X(T_cvar_handle_free, (void **))                                                               \
    X(T_cvar_read, (void *, void *))                                                               \
    X(T_cvar_write, (void *, const void *))

/* Conversions of Fortran handles, which a library without Fortran may lack. */
#define PMPI_FORTRAN(X)                                                                            \
    X(Comm_f2c, MPI_Comm)                                                                          \
    X(Type_f2c, MPI_Datatype)                                                                      \
    X(Request_f2c, MPI_Request)                                                                    \
    X(Session_f2c, MPI_Session)                                                                    \
    X(Win_f2c, MPI_Win)                                                                            \
    X(File_f2c, MPI_File)                                                                          \
    X(Op_f2c, MPI_Op)                                                                              \
    X(Group_f2c, MPI_Group)

struct pmpi {
#define MEMBER(name, parameters) int(*name) parameters;
    PMPI_REQUIRED(MEMBER)
    PMPI_OPTIONAL(MEMBER)
    PMPI_SWITCHING(MEMBER)
    PMPI_VARIABLES(MEMBER)
#undef MEMBER
#define MEMBER(name, handle) handle (*name)(MPI_Fint);
    PMPI_FORTRAN(MEMBER)
#undef MEMBER
    MPI_Fint (*Comm_c2f)(MPI_Comm);
    bool can_switch, has_variables;
    /* Open MPI's Fortran constants, by the compiler's name mangling */
    void *fortran_in_place[4], *fortran_bottom[4];
    /* also those of MPICH's f08 layer, which come first; its other layers pass those of C */
    void *fortran_status_ignore[4], *fortran_statuses_ignore[4];
};
extern struct pmpi pmpi;
bool pmpi_find_functions(void); /* returns false if this process has no compatible MPI library */
bool pmpi_survives_failures(void);

/* ---- statuses (status.c) */

bool status_is_ignored_fortran(const void *status);

static inline bool status_is_ignored(const void *status, bool fortran)
{
    return fortran ? status_is_ignored_fortran(status) : status == MPI_STATUS_IGNORE;
}

/* Return the status or statuses that the library fills, or NULL if the program ignores them or if
 * this cannot be determined. */
static inline const void *status_readable(const void *status, bool fortran)
{
#ifdef MPIPROF_ABI_mpich /* an MPICH without its f08 layer does not have the constants */
    if (fortran &&
        (pmpi.fortran_status_ignore[0] == NULL || pmpi.fortran_statuses_ignore[0] == NULL))
        return NULL;
#endif
    return status_is_ignored(status, fortran) ? NULL : status;
}

/* Return the bytes of a received message, or -1 if they are unknown or it was cancelled. */
static inline int64_t status_bytes(const void *status)
{
    const int *const s = status;
#if defined(MPIPROF_ABI_mpich)
    const bool cancelled = (s[1] & 1) != 0; /* then the count is undefined */

    return cancelled ? -1 : (int64_t)(uint32_t)s[0] | (int64_t)(s[1] >> 1) << 32;
#elif defined(MPIPROF_ABI_openmpi)
    const bool cancelled = s[3] != 0;

    return cancelled ? -1 : (int64_t)*(const size_t *)(const void *)(s + 4);
#else
    MPI_Count bytes = -1;

    (void)s;
    return pmpi.can_switch && pmpi.Get_elements_x(status, MPI_BYTE, &bytes) == MPI_SUCCESS ? bytes
                                                                                           : -1;
#endif
}

/* ---- conversion of Fortran handles to C handles */

#if defined(MPIPROF_ABI_openmpi) /* a Fortran handle is an index */
#define comm_f2c(f) pmpi.Comm_f2c(f)
#define type_f2c(f) pmpi.Type_f2c(f)
#define request_f2c(f) pmpi.Request_f2c(f)
#define op_f2c(f) pmpi.Op_f2c(f)
#define session_f2c(f) (pmpi.Session_f2c != NULL ? pmpi.Session_f2c(f) : NULL)
#define win_f2c(f) (pmpi.Win_f2c != NULL ? pmpi.Win_f2c(f) : NULL)
#define group_f2c(f) (pmpi.Group_f2c != NULL ? pmpi.Group_f2c(f) : MPI_GROUP_NULL)
#elif defined(MPIPROF_ABI_mpich) /* a Fortran handle is the C handle */
#define comm_f2c(f) (f)
#define type_f2c(f) (f)
#define request_f2c(f) (f)
#define op_f2c(f) (f)
#define session_f2c(f) (f)
#define win_f2c(f) (f)
#define group_f2c(f) (f)
#endif
#define file_f2c(f) (pmpi.File_f2c != NULL ? pmpi.File_f2c(f) : NULL)
