/* Members of a communicator (members.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"
#include "base/text.h"

struct members {
    int count, *ranks; /* world ranks */
    bool foreign;
};

struct members members_all(int size);
bool members_are_all(const struct members *m);
struct members members_of(MPI_Comm comm, bool remote, int size);
uint64_t members_hash(const struct members *m);
int members_lowest(const struct members *m);
void members_add(struct text *t, const struct members *m);
