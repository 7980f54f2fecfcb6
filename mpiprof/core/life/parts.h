/* Detection of unrecorded parts of a launch (mpmd.c). */
#pragma once
#include <stdbool.h>

void parts_mark(void); /* called before MPI_Init */
bool parts_several(bool with_world);
bool parts_knows(int rank);
void parts_end(void);
