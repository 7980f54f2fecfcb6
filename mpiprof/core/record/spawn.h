/* Message about spawned processes (spawn.c). */
#pragma once
#include "record/comm.h"

void spawn_remark(const struct creation *c, int root, const char *command, char *const *argv);
