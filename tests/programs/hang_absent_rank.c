/* A correct program with a long computation, or one with a last rank that never arrives.
 *
 *     hang_absent_rank SECONDS CODE [message|hang|slow|FILE]
 *
 * The last rank computes for SECONDS while the other ranks wait for it in a barrier. message: rank
 * 0 waits for its message, and all but the last rank in a barrier of these ranks. FILE: it computes
 * until the file exists. hang: it sleeps forever. slow: it sleeps forever after it was SECONDS late
 * three times. The exit code is CODE, or 99 if a process has a child. Rank 0 prints its number of
 * open files.
 */
#include <dirent.h>
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int open_files(void)
{
    DIR *const folder = opendir("/proc/self/fd");
    int count = 0;

    while (folder != NULL && readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    const char *const how = argc > 3 ? argv[3] : "";
    const char *const file = strchr(how, '/') != NULL ? how : NULL;
    const int seconds = atoi(argv[1]), code = atoi(argv[2]);
    volatile double sum = 0;
    int rank, size;
    MPI_Comm others;

    if (wait(NULL) != -1 || errno != ECHILD)
        return 99;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        printf("%d files\n", open_files());
        fflush(stdout);
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank < size - 1, rank, &others);
    for (int i = 0; i < 100; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; strcmp(how, "slow") == 0; i++) {
        if (rank == size - 1)
            sleep(i < 3 ? (unsigned)seconds : 3600);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == size - 1) {
        const double end = MPI_Wtime() + seconds;

        while (strcmp(how, "hang") == 0)
            sleep(1);
        while (file != NULL ? access(file, F_OK) != 0 : MPI_Wtime() < end)
            for (int i = 0; i < 1000; i++)
                sum += i;
        if (strcmp(how, "message") == 0)
            MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (strcmp(how, "message") == 0) {
        int from;

        if (rank == 0)
            MPI_Recv(&from, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(others);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&others);
    MPI_Finalize();
    return wait(NULL) == -1 && errno == ECHILD ? code : 99;
}
