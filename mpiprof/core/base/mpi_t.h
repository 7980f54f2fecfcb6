/* MPI_T access to the library's control variables (mpi_t.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/symbol_lookup.h"

struct tool_variable {
    void *handle;
    bool flag; /* a Boolean of one byte; otherwise an int */
};
bool mpi_t_begin(void);
void mpi_t_end(void);
int mpi_t_count(void);
bool mpi_t_name(int index, char *name, int room, MPI_Datatype *type);
bool mpi_t_text(int index, char *text, int room);
bool mpi_t_open(struct tool_variable *v, const char *name);
bool mpi_t_open_at(struct tool_variable *v, int index, MPI_Datatype type);
bool mpi_t_read(const struct tool_variable *v, int *value);
bool mpi_t_write(const struct tool_variable *v, int value);
void mpi_t_close(struct tool_variable *v);
