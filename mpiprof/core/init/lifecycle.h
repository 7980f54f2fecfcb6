/* Start and end of recording, from MPI_Init to MPI_Finalize (lifecycle.c). */
#pragma once
#include <stdbool.h>

#include "record/management_collectives.h"

void lifecycle_initialising(const char *wrapped);
void lifecycle_initialised(int error);
void lifecycle_finalising(struct management_collective *g, const void *address);
void lifecycle_finalised(struct management_collective *g, int error);
void lifecycle_aborting(void);
void lifecycle_session(int error, MPI_Session session);
void lifecycle_session_ending(void);
bool lifecycle_group_created(MPI_Comm comm);
