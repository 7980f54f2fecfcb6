/* Calls that run on a library algorithm by request (library_algorithm.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/call.h"
#include "run/execution.h"
#include "run/setting.h"

bool forced_applies(const struct own_algorithm *a, int64_t segment, const struct execution *e);
bool forced_known(const struct communicator *k, const struct own_algorithm *a, int64_t segment);
bool forced_duplicates(void);
bool forced_prepare(struct communicator *k, const struct own_algorithm *a, int64_t segment);
bool forced_ready(struct execution *e, const struct own_algorithm *a, int64_t segment);
bool forced_begin(struct execution *e, const char *label);
int forced_message(struct execution *e);
int forced_end(struct call *c, int error);
void forced_settle(void);
int forced_met(enum obstacle why);
MPI_Fint *forced_fortran(struct call *c, MPI_Fint *comm);

static inline MPI_Comm forced_comm(const struct call *c, MPI_Comm comm)
{
    return c->own != NULL && c->on != MPI_COMM_NULL ? c->on : comm;
}
