/* Preloaded behind mpiprof: records MPICH's algorithm variables of a collective, during and after
 * the call. library_algorithm_calls.c reads the result: number of the algorithm, and value of the
 * device variable. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#include "control_variable.h"

enum { MOST = 64, BYTES = 32 };

static char texts[MOST][BYTES];
const char *own_called[MOST];
int own_calls;

static int value_of(const char *operation, const char *tail)
{
    char name[100];
    int provided;

    snprintf(name, sizeof name, "MPIR_CVAR_%s_%s", operation, tail);
    for (char *c = name; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    return control_variable(name);
}

void own_look(const char *operation)
{
    if (own_calls == MOST)
        return;
    snprintf(texts[own_calls], BYTES, "%d:%d", value_of(operation, "INTRA_ALGORITHM"),
             value_of(operation, "DEVICE_COLLECTIVE"));
    own_called[own_calls] = texts[own_calls];
    own_calls++;
}

typedef int any(long, long, long, long, long, long, long, long, long, long);

/* Under another name here, as mpi.h has declared it otherwise. */
#define FUNCTION(Name, name)                                                                       \
    any own_##Name __asm__(#Name);                                                                 \
    int own_##Name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) \
    {                                                                                              \
        static any *next;                                                                          \
                                                                                                   \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #Name);                                             \
        own_look(name);                                                                            \
        return next(a, b, c, d, e, f, g, h, i, j);                                                 \
    }

FUNCTION(MPI_Allgather, "allgather")
FUNCTION(MPI_Allgatherv, "allgatherv")
FUNCTION(MPI_Allreduce, "allreduce")
FUNCTION(MPI_Alltoall, "alltoall")
FUNCTION(MPI_Alltoallv, "alltoallv")
FUNCTION(MPI_Barrier, "barrier")
FUNCTION(MPI_Bcast, "bcast")
FUNCTION(MPI_Gather, "gather")
FUNCTION(MPI_Gatherv, "gatherv")
FUNCTION(MPI_Reduce, "reduce")
FUNCTION(MPI_Reduce_scatter, "reduce_scatter")
FUNCTION(MPI_Reduce_scatter_block, "reduce_scatter_block")
FUNCTION(MPI_Scatter, "scatter")
FUNCTION(MPI_Scatterv, "scatterv")
FUNCTION(PMPI_Bcast, "bcast") /* which mpiprof may call in its place */
