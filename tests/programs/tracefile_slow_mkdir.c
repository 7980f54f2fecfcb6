/* A file system that is slow for rank 0. Its first mkdir takes longer than the other ranks wait.
 *
 * The delay lasts until the file SLOW_UNTIL exists, which a rank that stopped waiting creates
 * (communicators_reused_handles.c), and at most 10 minutes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int mkdir(const char *path, mode_t mode)
{
    static int calls;
    const char *const pmi = getenv("PMI_RANK"), *const ompi = getenv("OMPI_COMM_WORLD_RANK");
    const char *const rank = pmi != NULL ? pmi : ompi;

    if (rank != NULL && strcmp(rank, "0") == 0 && strstr(path, "trace-of-slow") && calls++ == 0)
        for (int i = 0; i < 6000 && access(getenv("SLOW_UNTIL"), F_OK) != 0; i++)
            usleep(100000);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
