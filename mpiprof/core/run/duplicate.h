/* Communicators with which Open MPI runs a requested algorithm (algorithm_comms.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"
#include "record/comm.h"

MPI_Comm duplicate_ready(struct communicator *k, int number, int64_t segment);
void duplicate_forget(struct communicator *k);
