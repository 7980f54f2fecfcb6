/* Communicator table and the order of operations on each communicator (comm_table.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "record/communicator.h"

struct communicator *comm_find(MPI_Comm comm);
struct communicator *comm_adopt(MPI_Comm comm); /* for a handle that no wrapper saw being created */
void comm_start(bool sessions);
void comm_making(struct creation *c, MPI_Comm parent, bool counted);
bool comm_made(struct creation *c, int error);
void comm_register(struct creation *c, MPI_Comm made);
void comm_freeing(struct freeing *f, MPI_Comm comm);
void comm_freed(struct freeing *f, int error);
void comm_named(MPI_Comm comm, int error);
int comm_living(void);
struct communicator *comm_derive(const struct communicator *like, const char *how, uint32_t number);

/* Return true on rank 0 of the private communicator, which decides for all members. */
static inline bool comm_leads(const struct communicator *k)
{
    return k->rank == 0 && (!k->inter || k->first_group);
}
