/* Creates N communicators, two at a time, with a child of each second, calls a reduction on each,
 * and frees them. Prints the resident memory (KB) after the first tenth and at the end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long resident(void)
{
    long pages = 0;
    FILE *const f = fopen("/proc/self/statm", "r");

    if (f == NULL || fscanf(f, "%*s %ld", &pages) != 1)
        return -1;
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE) / 1024;
}

static void reduce(MPI_Comm comm)
{
    int one = 1, sum = 0, size = 0;

    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != size)
        exit(3);
}

int main(int argc, char **argv)
{
    const int turns = argc > 1 ? atoi(argv[1]) / 2 : 100;
    long before = 0;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < turns; i++) {
        MPI_Comm first, second, child;
        MPI_Request request;

        MPI_Comm_dup(MPI_COMM_WORLD, &first);
        MPI_Comm_dup(MPI_COMM_WORLD, &second);
        reduce(second);
        reduce(first);
        MPI_Comm_split(second, 0, rank, &child);
        MPI_Ibarrier(child, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&child);
        /* In different orders, so that ranks come to use different entries again. */
        MPI_Comm_free((rank + i) % 2 == 0 ? &first : &second);
        MPI_Comm_free((rank + i) % 2 == 0 ? &second : &first);
        if (i == turns / 10)
            before = resident();
    }
    printf("rank %d: %ld KB, then %ld KB\n", rank, before, resident());
    MPI_Finalize();
    return 0;
}
