/* A broadcast with different sizes on different ranks, for which --switch requests `binomial`. The
 * error is reported by a code or by a handler, which returns or leaves. In the handler and
 * afterwards, the library's variable must have the program's value. A correct broadcast follows.
 * Argument: the variable's name. On 2 processes; rank 1 prints its observations. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>

#include "control_variable.h"

static jmp_buf place;
static int leaves, seen = -1, handled;
static const char *name;

static void handler(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    (void)error;
    handled++;
    seen = control_variable(name);
    if (leaves)
        longjmp(place, 1);
}

static int broadcast(int rank, int wrong, MPI_Comm comm)
{
    char bytes[64] = {0};

    for (int i = 0; rank == 0 && i < 64; i++)
        bytes[i] = (char)(i + 1);
    const int error = MPI_Bcast(bytes, wrong && rank == 1 ? 32 : 64, MPI_CHAR, 0, comm);

    return error != MPI_SUCCESS ? -1 : bytes[31];
}

int main(int argc, char **argv)
{
    MPI_Errhandler made;
    MPI_Comm comm;
    int rank, provided;

    name = argv[argc - 1];
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(handler, &made);
    for (int turn = 0; turn < 3; turn++) { /* a code, a handler, one that leaves */
        volatile int error = 0;

        leaves = turn == 2;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, turn == 0 ? MPI_ERRORS_RETURN : made);
        const int first = broadcast(rank, 0, comm);

        if (setjmp(place) == 0)
            error = broadcast(rank, 1, comm);
        else
            error = -3;
        const int after = control_variable(name);

        if (rank == 1)
            printf("turn %d: %d, wrong %d, handled %d, in handler %d, after %d, ", turn, first,
                   error, handled, seen, after);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            printf("then %d\n", control_variable(name));
        fflush(stdout);
    }
    MPI_Errhandler_free(&made);
    MPI_Finalize();
    return 0;
}
