/* Rank 1 reaches the second barrier late, for the reason that the first argument names. The second
 * argument is a folder for its files. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 40, USUAL_MS = 4, LATE_MS = 20, FILE_MB = 64, LATE_RANK = 1 };

static const char *folder = ".";
static char file_path[4096];
static int file = -1;
static pid_t neighbour;

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + t.tv_nsec * 1e-9;
}

static void compute(int ms)
{
    const double end = now(CLOCK_THREAD_CPUTIME_ID) + ms * 1e-3;

    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        continue;
}

static void nothing(void)
{
}

/* ---- work, sleep */

static void work(void)
{
    compute(LATE_MS);
}

static void sleep_late(void)
{
    usleep(LATE_MS * 1000);
}

/* ---- files: writes and fsync */

static void file_open(void)
{
    snprintf(file_path, sizeof file_path, "%s/delay-%d", folder, (int)getpid());
    file = open(file_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        abort();
}

static void file_remove(void)
{
    close(file);
    unlink(file_path);
}

static void write_late(void)
{
    static char block[4 << 20];
    const double end = now(CLOCK_MONOTONIC) + LATE_MS * 1e-3;

    do {
        if (pwrite(file, block, sizeof block, 0) < 0 || fsync(file) != 0)
            abort();
    } while (now(CLOCK_MONOTONIC) < end);
}

/* ---- page faults: a mapped file that is not in memory */

static void cold_open(void)
{
    static char block[1 << 20];

    file_open();
    for (int i = 0; i < FILE_MB; i++)
        if (write(file, block, sizeof block) < 0)
            abort();
    fsync(file);
}

static void fault_late(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = ((size_t)FILE_MB << 20) / page;
    static size_t next;
    static volatile char sum;

    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    const char *const memory = mmap(NULL, pages * page, PROT_READ, MAP_SHARED, file, 0);
    const double end = now(CLOCK_MONOTONIC) + LATE_MS * 1e-3;

    if (memory == MAP_FAILED)
        abort();
    madvise((void *)memory, pages * page, MADV_RANDOM);
    for (; now(CLOCK_MONOTONIC) < end; next = (next + 16) % pages)
        sum = (char)(sum + memory[next * page]);
    munmap((void *)memory, pages * page);
}

/* ---- page faults: fresh memory */

static void touch_late(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)4 << 20;
    const double end = now(CLOCK_THREAD_CPUTIME_ID) + LATE_MS * 1e-3;

    do {
        char *const memory =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        madvise(memory, bytes, MADV_NOHUGEPAGE);
        for (size_t i = 0; i < bytes; i += page)
            memory[i] = 1;
        munmap(memory, bytes);
    } while (now(CLOCK_THREAD_CPUTIME_ID) < end);
}

/* ---- preempted: a process that is busy on the same processor */

static void pin(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void neighbour_start(void)
{
    cpu_set_t set;

    sched_getaffinity(0, sizeof set, &set);
    int processor = CPU_SETSIZE - 1;

    while (processor > 0 && !CPU_ISSET((size_t)processor, &set))
        processor--;
    pin(processor);
    neighbour = fork();
    if (neighbour == 0)
        for (const pid_t parent = getppid(); getppid() == parent;)
            continue;
}

static void neighbour_end(void)
{
    kill(neighbour, SIGKILL);
    waitpid(neighbour, NULL, 0);
}

/* ---- another thread computes, and the calling thread waits for it */

static void *thread_run(void *unused)
{
    (void)unused;
    compute(LATE_MS);
    return NULL;
}

static void thread_late(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, thread_run, NULL) == 0)
        pthread_join(thread, NULL);
}

/* ---- steps */

static const struct reason {
    const char *name;
    void (*start)(void), (*late)(void), (*end)(void);
    bool all_compute; /* every rank has the work of a late one */
} reasons[] = {
    {"work", nothing, work, nothing, false},
    {"sleep", nothing, sleep_late, nothing, false},
    {"files", file_open, write_late, file_remove, false},
    {"cold", cold_open, fault_late, file_remove, false},
    {"touch", nothing, touch_late, nothing, false},
    {"neighbour", neighbour_start, nothing, neighbour_end, true},
    {"quota", nothing, nothing, nothing, true},
    {"thread", nothing, thread_late, nothing, false},
};

static void run(const struct reason *r, bool late)
{
    if (late)
        r->start();
    for (int i = 0; i < STEPS; i++) {
        MPI_Barrier(MPI_COMM_WORLD); /* before the step */
        compute(r->all_compute ? LATE_MS : USUAL_MS);
        if (late)
            r->late();
        MPI_Barrier(MPI_COMM_WORLD); /* after the step */
    }
    if (late)
        r->end();
}

/* Before MPI_Init, enter the control group that the third argument names, the late rank the limited
 * group in it. */
static void group_enter(const char *group)
{
    const char *const hydra = getenv("PMI_RANK"), *const prte = getenv("OMPI_COMM_WORLD_RANK");
    const char *const number = hydra != NULL ? hydra : prte;
    const bool is_late = number != NULL && atoi(number) == LATE_RANK;
    char path[4096];

    snprintf(path, sizeof path, "%s%s/cgroup.procs", group, is_late ? "/limited" : "");
    FILE *const f = fopen(path, "w");

    if (f == NULL || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f) != 0)
        abort();
}

int main(int argc, char **argv)
{
    int rank;

    if (argc > 3)
        group_enter(argv[3]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    folder = argc > 2 ? argv[2] : ".";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (argc > 1 && strcmp(reasons[i].name, argv[1]) == 0)
            run(&reasons[i], rank == LATE_RANK);
    MPI_Finalize();
    return 0;
}
