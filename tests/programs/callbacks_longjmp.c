/* A callback abandons MPI_Comm_dup ("copy") or MPI_Wait ("query") with longjmp. The errors of later
 * calls reach a handler that returns. */
#include <errno.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static jmp_buf away;
static int leaves;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    if (leaves) {
        leaves = 0;
        longjmp(away, 1);
    }
    *(void **)out = in;
    *flag = 1;
    return 0;
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    if (leaves) {
        leaves = 0;
        longjmp(away, 1);
    }
    return 0;
}

static int release(void *extra)
{
    (void)extra;
    return 0;
}

static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return 0;
}

static void handle(MPI_Comm *comm, int *error, ...)
{
    (void)comm, (void)error;
}

static void fail(int which, int rank)
{
    int x[4] = {0}, y[4], counts[2] = {1, 1}, places[2] = {0, 1};
    MPI_Comm made;

    switch (which) {
    case 0: MPI_Bcast(x, -1, MPI_INT, 0, MPI_COMM_WORLD); break;
    case 1: MPI_Allreduce(x, y, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
    case 2: MPI_Send(x, -1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD); break;
    case 3: MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &made); break;
    case 4: MPI_Gather(x, 1, MPI_INT, y, 1, MPI_INT, 77, MPI_COMM_WORLD); break;
    case 5: MPI_Reduce(x, y, -1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD); break;
    default: MPI_Scatterv(x, counts, places, MPI_INT, y, 1, MPI_INT, 55, MPI_COMM_WORLD);
    }
}

static void leave_copy(MPI_Comm comm)
{
    MPI_Comm made;

    if (setjmp(away) == 0)
        MPI_Comm_dup(comm, &made);
}

static void leave_query(void)
{
    MPI_Request request;

    MPI_Grequest_start(query, release, cancel, NULL, &request);
    MPI_Grequest_complete(request);
    if (setjmp(away) == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, key, one = 1, sum = 0, byte;
    MPI_Errhandler handler;
    MPI_Comm other, split;
    MPI_Request pending;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(other, key, &rank);
    MPI_Ibarrier(other, &pending);
    leaves = strcmp(argv[1], "none") != 0;
    if (strcmp(argv[1], "copy") == 0)
        leave_copy(other);
    else if (leaves)
        leave_query();
    for (int i = 0; i < 7 && strcmp(argv[1], "none") != 0; i++)
        fail(i, rank);
    MPI_Wait(&pending, MPI_STATUS_IGNORE);
    one += read(-1, &byte, 1) < 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, other);
    if (rank == 0)
        printf("%s\n", strerror(errno));
    errno = 0;
    MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &split);
    MPI_Barrier(split);
    if (rank == 0)
        printf("sum %d, %s\n", sum, strerror(errno));
    MPI_Finalize();
    return 0;
}
