/* Detection of unrecorded parts of a launch (mpmd.c). */
#pragma once
#include <stdbool.h>

void mpmd_mark(void); /* called before MPI_Init */
bool mpmd_several(bool with_world);
bool mpmd_knows(int rank);
void mpmd_end(void);
