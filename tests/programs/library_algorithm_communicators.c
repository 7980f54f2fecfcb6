/* 100 communicators, each with an allreduce, which --switch runs on a library algorithm, then a
 * broadcast, which stays native. Rank 0 prints the functions that library_algorithm_functions.c
 * recorded for the broadcasts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { COMMUNICATORS = 100 };

int main(int argc, char **argv)
{
    const char **const called = dlsym(RTLD_DEFAULT, "own_called");
    int *const calls = dlsym(RTLD_DEFAULT, "own_calls");
    MPI_Comm comms[COMMUNICATORS];
    double in[100] = {0}, out[100];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Allreduce(in, out, 100, MPI_DOUBLE, MPI_SUM, comms[i]);
    }
    for (int i = 0; i < COMMUNICATORS; i++) {
        *calls = 0;
        MPI_Bcast(in, 100, MPI_DOUBLE, 0, comms[i]);
        for (int j = 0; rank == 0 && j < *calls; j++)
            printf("%s\n", called[j]);
        MPI_Comm_free(&comms[i]);
    }
    MPI_Finalize();
    return 0;
}
