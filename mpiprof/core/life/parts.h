/* Parts of a launch, some of which may run bare: parts.c. */
#pragma once
#include <stdbool.h>

void parts_mark(void); /* before MPI_Init */
bool parts_several(bool with_world);
bool parts_knows(int rank);
void parts_end(void);
