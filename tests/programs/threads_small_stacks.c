/* A thread and coroutines with stacks of 16 KB make all MPI calls, the first on each communicator
 * included. A page without access below each coroutine's stack turns an overflow into SIGSEGV. */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 1 << 14, CALLS = 300 };

static ucontext_t home, away;
static int rank, size, done;
static MPI_Comm comm;

static void require(int holds)
{
    if (!holds)
        _exit(3);
}

static void collectives(void)
{
    int sums[2], values[2] = {1, rank}, *const all = calloc((size_t)size, sizeof *all);

    MPI_Allreduce(values, sums, 2, MPI_INT, MPI_SUM, comm);
    require(sums[0] == size && sums[1] == size * (size - 1) / 2);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int i = 0; i < size; i++)
        require(all[i] == i);
    values[0] = rank == 1 ? 42 : 0;
    MPI_Bcast(values, 1, MPI_INT, 1, comm);
    require(values[0] == 42);
    MPI_Barrier(comm);
    free(all);
    done++;
}

static void *thread(void *unused)
{
    for (int i = 0; i < CALLS; i++)
        collectives();
    return unused;
}

static void coroutine(void)
{
    thread(NULL);
    setcontext(&home);
}

static void run_thread(void)
{
    const long least = sysconf(_SC_THREAD_STACK_MIN); /* above 16 KB on some processors */
    pthread_attr_t attributes;
    pthread_t small;

    pthread_attr_init(&attributes);
    require(pthread_attr_setstacksize(&attributes, least > STACK ? (size_t)least : STACK) == 0);
    require(pthread_create(&small, &attributes, thread, NULL) == 0);
    pthread_join(small, NULL);
}

static void run_coroutine(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const memory =
        mmap(NULL, page + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    require(memory != MAP_FAILED && mprotect(memory, page, PROT_NONE) == 0);
    getcontext(&away);
    away.uc_stack.ss_sp = memory + page;
    away.uc_stack.ss_size = STACK;
    away.uc_link = NULL;
    makecontext(&away, coroutine, 0);
    swapcontext(&home, &away);
    munmap(memory, page + STACK);
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comm = MPI_COMM_WORLD;
    run_thread();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    run_coroutine();
    MPI_Comm_free(&comm);
    if (rank == 0)
        printf("%d\n", done);
    MPI_Finalize();
    return 0;
}
