/* Makes COUNT reductions on MPI_COMM_SELF, then ends as its first argument requests. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int is(const char *word, const char *other)
{
    return strcmp(word, other) == 0;
}

static void reduce(long count)
{
    double x = 1, sum = 0;

    for (long i = 0; i < count; i++)
        MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}

static void limit(int resource, rlim_t most)
{
    struct rlimit r = {most, most};

    if (setrlimit(resource, &r) != 0)
        perror("setrlimit");
}

/* Closes all that is not its own and takes the numbers for a file of its own. */
static void reuse_descriptors(const char *path)
{
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 3; i < 1000; i++)
        if (open(path, O_RDWR | O_CREAT | O_APPEND, 0666) < 0)
            break;
}

static void fork_children(void)
{
    for (int i = 0; i < 3; i++)
        if (fork() == 0)
            i == 0 ? exit(0) : i == 1 ? _exit(0) : abort();
    while (wait(NULL) > 0)
        ;
}

int main(int argc, char **argv)
{
    const char *const how = argc > 1 ? argv[1] : "";
    const long count = argc > 2 ? atol(argv[2]) : 0;
    int rank = 0;

    if (is(how, "nothing"))
        return 7;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is(how, "small-files"))
        limit(RLIMIT_FSIZE, 300000);
    if (is(how, "few-descriptors"))
        limit(RLIMIT_NOFILE, 64);
    reduce(count / 2);
    if (is(how, "reuse"))
        reuse_descriptors(argv[3]);
    reduce(count - count / 2);
    if (is(how, "fork"))
        fork_children();
    if (is(how, "elsewhere") && (chdir("/") != 0 || clearenv() != 0))
        return 1;
    printf("rank %d made %ld\n", rank, count);
    if (fflush(stdout) != 0)
        return 12;
    if (is(how, "kill"))
        raise(SIGKILL);
    if (is(how, "segv"))
        raise(SIGSEGV);
    if (is(how, "_exit"))
        _exit(9);
    if (is(how, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (is(how, "exit"))
        exit(6);
    if (is(how, "reuse"))
        _exit(0); /* MPI has lost its own descriptors too */
    MPI_Finalize();
    return is(how, "code") ? 11 : 0;
}
