/* Identity of a communicator (comm_id.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "record/communicator.h"
#include "record/members.h"

uint64_t comm_id_agreed(const struct creation *how, const struct members *mine,
                        const struct members *others, bool inter);
uint64_t comm_id_local(void);
int64_t comm_id_kin(const struct creation *how, struct communicator *c, MPI_Comm comm,
                    const struct members *mine);
struct communicator *comm_id_take(uint64_t kind);
void comm_id_give(struct communicator *c);
