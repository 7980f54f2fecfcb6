/* Calls that run on a library algorithm by request (library_algorithm.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "executor/execution.h"
#include "executor/mpi_t_algorithm.h"
#include "record/call.h"

bool library_algorithm_applies(const struct own_algorithm *a, int64_t segment,
                               const struct execution *e);
bool library_algorithm_known(const struct communicator *k, const struct own_algorithm *a,
                             int64_t segment);
bool library_algorithm_duplicates(void);
bool library_algorithm_prepare(struct communicator *k, const struct own_algorithm *a,
                               int64_t segment);
bool library_algorithm_ready(struct execution *e, const struct own_algorithm *a, int64_t segment);
bool library_algorithm_begin(struct execution *e, const char *label);
int library_algorithm_message(struct execution *e);
int library_algorithm_end(struct call *c, int error);
void library_algorithm_settle(void);
int library_algorithm_met(enum obstacle why);
MPI_Fint *library_algorithm_fortran(struct call *c, MPI_Fint *comm);

static inline MPI_Comm library_algorithm_comm(const struct call *c, MPI_Comm comm)
{
    return c->own != NULL && c->on != MPI_COMM_NULL ? c->on : comm;
}
