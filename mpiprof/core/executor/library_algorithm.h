/* Algorithms of the MPI library that run by request. */
#pragma once
#include "executor/execution.h"

/* ---- the library's control variables that select its algorithms (mpi_t_algorithm.c) */

enum need { /* requirements of an algorithm; the values are bit numbers */
#define NEED(word, text) NEED_##word,
            OWN_NEEDS(NEED)
#undef NEED
                NEEDS
};
struct library_algorithm {
    int operation;
    const char *name;
    int number; /* value of its control variable */
    unsigned needs;
    bool segmented; /* it sends in segments of a selectable size */
    /* equivalent algorithm of the catalogue, with about the same time; "" if there is none */
    const char *similar;
    const char *label; /* for example native:ring */
};
/* obstacles to selecting library algorithms; the greatest over all members counts */
enum obstacle {
    OBSTACLE_NONE,
    OBSTACLE_INTERFACE,
    OBSTACLE_THREADS,
    OBSTACLE_SESSIONS,
    OBSTACLE_SETTINGS,
    OBSTACLE_NOT_ASKED, /* no rule or option requests a library algorithm */
    /* obstacles of a single call: */
    OBSTACLE_FIXED, /* the library has no writable variable for the operation */
    OBSTACLE_DUPLICATE,
    OBSTACLE_PROGRAM,
    OBSTACLES
};
void mpi_t_algorithm_start(void);
enum obstacle mpi_t_algorithm_obstacle(void);
const struct library_algorithm *mpi_t_algorithm_find(const char *operation, const char *name);
extern const struct library_algorithm mpi_t_algorithms[];
extern const int mpi_t_algorithm_count;
bool mpi_t_algorithm_has(int operation, bool segment);
int64_t mpi_t_algorithm_facts(void);
bool mpi_t_algorithm_set(int operation, int number);
bool mpi_t_algorithm_set_all(int number, int64_t segment);
void mpi_t_algorithm_restore(void);
void mpi_t_algorithm_end(void);

/* ---- calls that run on a library algorithm by request (library_algorithm.c) */

#ifdef MPIPROF_ABI_openmpi
enum { ALGORITHM_NEEDS_COMM = 1 }; /* a library algorithm requires a communicator */
#else
enum { ALGORITHM_NEEDS_COMM = 0 };
#endif

extern atomic_int library_algorithm_obstacles[OBSTACLES]; /* calls, counted by rank 0 */
bool library_algorithm_applies(const struct library_algorithm *a, int64_t segment,
                               const struct execution *e);
bool library_algorithm_known(const struct communicator *k, const struct library_algorithm *a,
                             int64_t segment);
bool library_algorithm_prepare(struct communicator *k, const struct library_algorithm *a,
                               int64_t segment);
bool library_algorithm_ready(struct execution *e, const struct library_algorithm *a,
                             int64_t segment);
bool library_algorithm_begin(struct execution *e, const char *label);
int library_algorithm_bcast(struct execution *e);
int library_algorithm_end(struct call *c, int error);
void library_algorithm_restore(void);
MPI_Fint *library_algorithm_fortran(struct call *c, MPI_Fint *comm);

static inline MPI_Comm library_algorithm_comm(const struct call *c, MPI_Comm comm)
{
    return c->library_algorithm != NULL && c->library_comm != MPI_COMM_NULL ? c->library_comm
                                                                            : comm;
}
