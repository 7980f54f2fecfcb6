/* Cases of intervals between calls with known answers, one per run; the argument names the case. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5, STEP_MS = 20, PAGES = 1000, THREADS = 40, FILES = 8 };

static int rank;

static void compute(int ms)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    const double end = (double)t.tv_sec + t.tv_nsec * 1e-9 + ms * 1e-3;

    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((double)t.tv_sec + t.tv_nsec * 1e-9 < end);
}

static void touch(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *const memory =
        mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    madvise(memory, PAGES * page, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++)
        memory[i * page] = 1;
    munmap(memory, PAGES * page);
}

/* Sleeps after the first barrier, computes after the second, touches pages after the third. */
static void activities(void)
{
    for (int i = 0; i < REPEATS; i++) {
        MPI_Barrier(MPI_COMM_WORLD); /* before sleep */
        usleep(STEP_MS * 1000);
        MPI_Barrier(MPI_COMM_WORLD); /* before compute */
        compute(STEP_MS);
        MPI_Barrier(MPI_COMM_WORLD); /* before touch */
        touch();
        compute(1);
    }
}

/* Intervals between calls of all forms. */
static void forms(void)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request requests[2], all;
    MPI_Status status;
    int in = 0, out = rank, peer = 1 - rank;

    for (int i = 0; i < REPEATS; i++) {
        MPI_Irecv(&in, 1, MPI_INT, peer, 0, world, &requests[0]);  /* irecv */
        MPI_Isend(&out, 1, MPI_INT, peer, 0, world, &requests[1]); /* isend */
        usleep(1000);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* waitall */
        MPI_Ibarrier(world, &all);                     /* ibarrier */
        usleep(1000);
        MPI_Wait(&all, MPI_STATUS_IGNORE); /* wait */
        usleep(1000);
        MPI_Sendrecv_replace(&out, 1, MPI_INT, peer, 1, peer, 1, world, &status); /* sendrecv */
    }
}

static int descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void *thread_run(void *unused)
{
    MPI_Barrier(MPI_COMM_SELF);
    usleep(1000);
    MPI_Barrier(MPI_COMM_SELF);
    return unused;
}

/* Threads that come and go leave no descriptors. */
static void threads(void)
{
    pthread_t t;

    MPI_Barrier(MPI_COMM_WORLD);
    const int before = descriptors();

    for (int i = 0; i < THREADS; i++) {
        pthread_create(&t, NULL, thread_run, NULL);
        pthread_join(t, NULL);
    }
    printf("descriptors %d\n", descriptors() - before);
}

/* The program closes all descriptors and gets the same numbers for its own files, whose positions
 * must not move. */
static void closed(void)
{
    int files[FILES], moved = 0;
    char name[64];

    MPI_Barrier(MPI_COMM_WORLD);
    const int first = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);

    close(first);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", 500 + i);
        char target[256] = "";

        if (readlink(name, target, sizeof target - 1) < 0 || strstr(target, ".log") != NULL ||
            strstr(target, ".tables") != NULL) {
            files[i] = -1;
            continue;
        }
        const int own = open("/etc/passwd", O_RDONLY);

        files[i] = dup2(own, 500 + i);
        close(own);
    }
    for (int i = 0; i < REPEATS; i++) {
        usleep(1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < FILES; i++)
        moved += files[i] >= 0 && lseek(files[i], 0, SEEK_CUR) != 0;
    printf("moved %d\n", moved);
}

static void paused(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(0);
    for (int i = 0; i < REPEATS; i++) {
        usleep(1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Pcontrol(1);
    MPI_Barrier(MPI_COMM_WORLD); /* the end of the call before it is unknown */
    usleep(1000);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A forked child does not record. */
static void forked(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const pid_t child = fork();

    if (child == 0) {
        usleep(1000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    usleep(1000);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void killed(void)
{
    for (int i = 0; i < 100; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(500);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    raise(SIGKILL);
}

static void many(void)
{
    for (int i = 0; i < 3000; i++) {
        MPI_Barrier(MPI_COMM_SELF);
        usleep(200);
    }
}

/* A sandbox that ends a process for a system call that MPI does not need. */
static void forbid_perf_events(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        puts("no seccomp");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"activities", activities}, {"forms", forms},   {"threads", threads},
                 {"closed", closed},         {"paused", paused}, {"forked", forked},
                 {"killed", killed},         {"many", many},     {"sandbox", many}};
    const char *const name = argc > 1 ? argv[1] : "";
    int level;

    if (strcmp(name, "sandbox") == 0)
        forbid_perf_events();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, name) == 0)
            cases[i].run();
    MPI_Finalize();
    return 0;
}
