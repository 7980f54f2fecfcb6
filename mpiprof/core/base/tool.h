/* MPI_T access to the library's control variables (mpi_t.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/native.h"

struct tool_variable {
    void *handle;
    bool flag; /* a Boolean of one byte; otherwise an int */
};
bool tool_begin(void);
void tool_end(void);
int tool_count(void);
bool tool_name(int index, char *name, int room, MPI_Datatype *type);
bool tool_text(int index, char *text, int room);
bool tool_open(struct tool_variable *v, const char *name);
bool tool_open_at(struct tool_variable *v, int index, MPI_Datatype type);
bool tool_read(const struct tool_variable *v, int *value);
bool tool_write(const struct tool_variable *v, int value);
void tool_close(struct tool_variable *v);
