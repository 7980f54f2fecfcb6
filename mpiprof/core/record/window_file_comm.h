/* Entries of windows and files (window_file_comm.c). */
#pragma once
#include "record/comm.h"

struct communicator *window_file_comm_own(struct communicator *comm);
void window_file_comm_making(struct creation *c, MPI_Comm comm);
void window_file_comm_window_register(const struct creation *c, MPI_Win made);
struct communicator *window_file_comm_window_find(MPI_Win window);
struct communicator *window_file_comm_window_unlink(MPI_Win window);
void window_file_comm_window_freed(struct communicator *c, int error, MPI_Win window);
void window_file_comm_file_register(const struct creation *c, MPI_File made);
struct communicator *window_file_comm_file_find(MPI_File file);
struct communicator *window_file_comm_file_unlink(MPI_File file);
void window_file_comm_file_freed(struct communicator *c, int error, MPI_File file);
