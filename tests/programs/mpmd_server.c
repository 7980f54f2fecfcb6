/* A server among workers, some of which may run unrecorded. With MPI_ANY_SOURCE the server must
 * receive exactly the workers' messages, and the workers exactly its answers.
 *
 *     mpmd_server SERVER      each process is a worker except the rank SERVER
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const int tags[] = {0, 7, 19936, 19937, 32767};
enum { TAGS = sizeof tags / sizeof *tags };

static void fail(const char *what, int rank, const MPI_Status *status)
{
    int bytes;

    MPI_Get_count(status, MPI_BYTE, &bytes);
    printf("rank %d: %s: from %d, tag %d, %d bytes\n", rank, what, status->MPI_SOURCE,
           status->MPI_TAG, bytes);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void serve(int rank, int size)
{
    int *const next = calloc((size_t)size, sizeof *next);
    MPI_Status status;

    for (int i = 0; i < (size - 1) * TAGS; i++) {
        int value = -1;

        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        const int from = status.MPI_SOURCE;

        if (next[from] >= TAGS || status.MPI_TAG != tags[next[from]] ||
            value != 100 * from + next[from])
            fail("no message of a worker", rank, &status);
        next[from]++;
    }
    for (int i = 0; i < size; i++)
        if (i != rank)
            MPI_Send(&i, 1, MPI_INT, i, 19936, MPI_COMM_WORLD);
    free(next);
}

static void work(int rank, int server)
{
    MPI_Status status;
    int answer = -1;

    for (int i = 0; i < TAGS; i++) {
        const int value = 100 * rank + i;

        MPI_Send(&value, 1, MPI_INT, server, tags[i], MPI_COMM_WORLD);
    }
    MPI_Recv(&answer, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (answer != rank)
        fail("no answer of the server", rank, &status);
}

int main(int count, char **words)
{
    const int server = count > 1 ? atoi(words[1]) : 0;
    MPI_Status status;
    int rank, size, more = 0;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == server)
        serve(rank, size);
    else
        work(rank, server);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &more, &status);
        if (more)
            fail("one message too many", rank, &status);
        usleep(1000);
    }
    MPI_Finalize();
    printf("ok\n");
    return 0;
}
