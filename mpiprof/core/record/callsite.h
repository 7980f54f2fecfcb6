/* Where the program calls MPI: callsite.c. */
#pragma once
#include <stdbool.h>

#include "record/site.h"

struct call;
struct site *callsite_find(const void *address);
const struct site *callsite_of(const struct call *c); /* recorded or not */
bool callsite_of_program(const char *frame);
void callsite_start(void);
