/* Receives from any source or with any tag, completed by calls that mostly ignore the statuses of
 * several requests. The argument is the case. In "errors", one message is truncated, and rank 0 prints the
 * error class of each call, what the error handler got, and which requests remain. The output of a
 * case is the same in every run. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { WAITALL, TESTALL, WAITSOME, TESTSOME, CALLS };
enum { FEW = 3, MANY = 12, BYTES = 8, TAG = 5 };

static int rank, handled_class = -1;
static MPI_Status all_statuses[MANY], *statuses = MPI_STATUSES_IGNORE;
static char in[MANY][BYTES], out[2 * BYTES];

static int class_of(int error)
{
    int class;

    MPI_Error_class(error, &class);
    return class;
}

static void handle(MPI_Comm *comm, int *error, ...)
{
    (void)comm;
    handled_class = class_of(*error);
}

/* Complete some receives by one kind of call. Returns the first error. */
static int complete(int call, MPI_Request *requests, int count)
{
    int indices[MANY], done = 0, error = MPI_SUCCESS;

    if (call == WAITALL)
        return MPI_Waitall(count, requests, statuses);
    while (call == TESTALL && error == MPI_SUCCESS && !done)
        error = MPI_Testall(count, requests, &done, statuses);
    while ((call == WAITSOME || call == TESTSOME) && error == MPI_SUCCESS && done != MPI_UNDEFINED)
        error = (call == WAITSOME ? MPI_Waitsome : MPI_Testsome)(count, requests, &done, indices,
                                                                 statuses);
    return error;
}

/* Rank 0 receives messages of rank 1 with any tag, and prints their sizes in the order of the
 * receives. `tags`: number of tags that rank 1 uses in turn. */
static void messages(int tags)
{
    for (int call = 0; call < CALLS; call++) {
        const int count = call == WAITALL ? MANY : FEW;
        MPI_Request requests[MANY];

        for (int i = 0; rank == 0 && i < count; i++) /* posted from the last to the first */
            MPI_Irecv(in[i], BYTES, MPI_CHAR, 1, MPI_ANY_TAG, MPI_COMM_WORLD,
                      &requests[count - 1 - i]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; rank == 1 && i < count; i++) {
            out[0] = (char)(1 + (i + call) % BYTES);
            MPI_Send(out, out[0], MPI_CHAR, 0, TAG + i % tags, MPI_COMM_WORLD);
        }
        if (rank == 0 && complete(call, requests, count) != MPI_SUCCESS)
            printf("call %d failed\n", call);
        for (int i = 0; rank == 0 && i < count; i++)
            printf("%d\n", in[i][0]);
    }
}

static void one_tag(void)
{
    messages(1);
}

static void with_statuses(void)
{
    statuses = all_statuses;
    messages(1);
}

static void two_tags(void)
{
    messages(2);
}

/* Like these, after a receive from any source whose status is ignored. */
static void after_any_source(void)
{
    MPI_Request request;

    if (rank == 0) {
        MPI_Irecv(in[0], BYTES, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    } else {
        MPI_Send(out, BYTES, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    }
    messages(1);
}

/* Like these, after a receive with any tag that got no message because it was cancelled. */
static void after_cancel(void)
{
    MPI_Request request;

    if (rank == 0) {
        MPI_Irecv(in[0], BYTES, MPI_CHAR, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    messages(1);
}

static void errors(void)
{
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int call = 0; call < CALLS; call++) {
        MPI_Request requests[FEW];

        for (int i = 0; rank == 1 && i < FEW; i++)
            MPI_Send(out, i == 1 ? 2 * BYTES : BYTES, MPI_CHAR, 0, i, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            continue;
        for (int i = 0; i < FEW; i++)
            MPI_Irecv(in[i], BYTES, MPI_CHAR, i == 0 ? MPI_ANY_SOURCE : 1, MPI_ANY_TAG,
                      MPI_COMM_WORLD, &requests[i]);
        handled_class = -1;
        const int error = complete(call, requests, FEW);

        printf("call %d: class %d, handler %d, remain", call, class_of(error), handled_class);
        for (int i = 0; i < FEW; i++) {
            printf(" %d", requests[i] != MPI_REQUEST_NULL);
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        printf("\n");
    }
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"errors", errors},
                 {"one_tag", one_tag},
                 {"with_statuses", with_statuses},
                 {"two_tags", two_tags},
                 {"after_any_source", after_any_source},
                 {"after_cancel", after_cancel}};

    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
