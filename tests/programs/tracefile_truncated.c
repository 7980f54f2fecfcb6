/* Truncates the files of its own trace while it is recorded, and continues.
 *
 *   tracefile_truncated FOLDER BYTES WAY
 *
 * WAY is the program's earlier action for SIGBUS: default, handler, info (SA_SIGINFO on another
 * stack), once (SA_RESETHAND), ignore, block, thread (a thread that blocks all signals makes the
 * calls). Then the program receives another SIGBUS, and prints what its handler receives.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile sig_atomic_t seen, code;
static char *volatile fault;
static char other_stack[1 << 16];
static volatile int on_other_stack;

static int is(const char *word, const char *other)
{
    return strcmp(word, other) == 0;
}

static double reduce(int count)
{
    double sum = 0, x = 1, out;

    for (int i = 0; i < count; i++) {
        MPI_Allreduce(&x, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        sum += out;
    }
    for (int i = 0; i < count; i++)
        MPI_Sendrecv(&x, 1, MPI_DOUBLE, 0, 0, &out, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF,
                     MPI_STATUS_IGNORE);
    return sum;
}

static void truncate_all(const char *folder, long bytes)
{
    DIR *const d = opendir(folder);
    char path[4500];
    const struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.' && truncate(path, bytes) != 0)
            perror(path);
    }
    if (d != NULL)
        closedir(d);
}

static void come_back(int number)
{
    seen++;
    (void)number;
    siglongjmp(back, 1);
}

static void come_back_with(int number, siginfo_t *info, void *context)
{
    const char here = 0;
    const char *volatile const at = &here;

    (void)context;
    on_other_stack = at >= other_stack && at < other_stack + sizeof other_stack;
    code = info->si_addr == fault ? info->si_code : -1;
    come_back(number);
}

static void print_mask_and_action(void)
{
    struct sigaction now;
    sigset_t mask;

    sigaction(SIGBUS, NULL, &now);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf("%s, flags %x, mask %d%d, blocked %d\n",
           now.sa_handler == SIG_DFL   ? "default"
           : now.sa_handler == SIG_IGN ? "ignored"
                                       : "handler",
           (unsigned)now.sa_flags, sigismember(&now.sa_mask, SIGINT),
           sigismember(&now.sa_mask, SIGTERM), sigismember(&mask, SIGBUS));
    fflush(stdout);
}

/* A page beyond the end of a file of the program's own. */
static void own_fault(void)
{
    const int file = memfd_create("shrunk", 0);

    fault = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (sigsetjmp(back, 1) == 0)
        *fault = 1;
    printf("own fault: seen %d, code %d, other stack %d\n", (int)seen, (int)code, on_other_stack);
    fflush(stdout);
}

static void prepare(const char *way)
{
    struct sigaction mine = {.sa_handler = come_back, .sa_flags = SA_RESTART};
    const stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigset_t bus;

    sigemptyset(&bus);
    sigaddset(&bus, SIGBUS);
    sigaddset(&mine.sa_mask, SIGTERM);
    if (is(way, "info")) {
        mine.sa_sigaction = come_back_with;
        mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaltstack(&other, NULL);
    }
    if (is(way, "once"))
        mine.sa_flags = (int)SA_RESETHAND;
    if (is(way, "ignore"))
        signal(SIGBUS, SIG_IGN);
    else if (is(way, "block"))
        sigprocmask(SIG_BLOCK, &bus, NULL);
    else if (!is(way, "default") && !is(way, "thread"))
        sigaction(SIGBUS, &mine, NULL);
}

static void *in_thread(void *words)
{
    char **const argv = words;

    reduce(100);
    truncate_all(argv[1], atol(argv[2]));
    printf("%.0f\n", reduce(100));
    return NULL;
}

static void in_blocked_thread(char **argv)
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&thread, NULL, in_thread, argv);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    const char *const way = argv[3];
    int provided, rank;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    prepare(way);
    reduce(100);
    if (is(way, "thread"))
        in_blocked_thread(argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        truncate_all(argv[1], atol(argv[2]));
    MPI_Barrier(MPI_COMM_WORLD);
    printf("%.0f\n", reduce(3000));
    print_mask_and_action();
    if (is(way, "handler") || is(way, "info") || is(way, "once"))
        own_fault();
    print_mask_and_action();
    if (is(way, "ignore"))
        raise(SIGBUS);
    MPI_Finalize();
    if (is(way, "default") || is(way, "once"))
        raise(SIGBUS);
    return 0;
}
