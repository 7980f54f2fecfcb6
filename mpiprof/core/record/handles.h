/* Entries of windows and files (window_file_comm.c). */
#pragma once
#include "record/comm.h"

struct communicator *handle_own(struct communicator *comm);
void handle_making(struct creation *c, MPI_Comm comm);
void handle_window_register(const struct creation *c, MPI_Win made);
struct communicator *handle_window_find(MPI_Win window);
struct communicator *handle_window_unlink(MPI_Win window);
void handle_window_freed(struct communicator *c, int error, MPI_Win window);
void handle_file_register(const struct creation *c, MPI_File made);
struct communicator *handle_file_find(MPI_File file);
struct communicator *handle_file_unlink(MPI_File file);
void handle_file_freed(struct communicator *c, int error, MPI_File file);
