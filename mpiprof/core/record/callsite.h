/* Where the program calls MPI: callsite.c. */
#pragma once
#include <stdbool.h>

#include "record/site.h"

struct site *callsite_find(const void *address);
struct site *callsite_at(const void *instruction); /* NULL: of too many places */
bool callsite_of_program(const char *frame);
void callsite_start(void);
