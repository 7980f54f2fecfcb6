/* Parts of a launch, some of which may run bare: parts.c. */
#pragma once
#include <stdbool.h>

void parts_mark(void); /* before MPI_Init */
bool parts_several(bool with_world);
void parts_find(bool *here, int size);
bool parts_leader(void);
void parts_end(int size);
