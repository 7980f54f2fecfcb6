/* Installs the kernel's handler for SIGTERM, which is the recorder's, for another signal, and
 * raises it. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const int number = atoi(argv[1]);
    struct sigaction mine = {.sa_flags = SA_SIGINFO}, found;
    unsigned long kernels[8] = {0}; /* its own sigaction begins with the handler */

    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_SELF);
    syscall(SYS_rt_sigaction, SIGTERM, NULL, kernels, 8);
    memcpy(&mine.sa_sigaction, &kernels[0], sizeof kernels[0]);
    sigaction(number, &mine, NULL);
    sigaction(number, NULL, &found);
    printf("%s\n", found.sa_sigaction == mine.sa_sigaction ? "the same" : "another");
    fflush(stdout);
    raise(number);
    MPI_Finalize();
    return 0;
}
