/* Call sites: the locations in the program that call MPI (callsite.c). */
#pragma once
#include <stdbool.h>

#include "callsite/site.h"

struct site *callsite_find(const void *address);
struct site *callsite_at(const void *instruction); /* NULL beyond MOST_SAMPLED */
bool callsite_of_program(const char *frame);
void callsite_start(void);
