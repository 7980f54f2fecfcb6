/* Communicators with which Open MPI runs a requested algorithm (algorithm_comms.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "record/comm.h"

MPI_Comm algorithm_comm_ready(struct communicator *k, int number, int64_t segment);
void algorithm_comm_forget(struct communicator *k);
