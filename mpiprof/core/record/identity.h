/* Identity of a communicator (comm_id.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"
#include "record/communicator.h"
#include "record/members.h"

uint64_t identity_agreed(const struct creation *how, const struct members *mine,
                         const struct members *others, bool inter);
uint64_t identity_local(void);
int64_t identity_kin(const struct creation *how, struct communicator *c, MPI_Comm comm,
                     const struct members *mine);
struct communicator *identity_take(uint64_t kind);
void identity_give(struct communicator *c);
