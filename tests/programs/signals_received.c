/* Receives a signal, or queries its handler. The output must not depend on recording.
 *
 *   signals_received WAY
 *
 * Each way prints its observations; most end by the signal.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef void (*simple)(int);

static const int all[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGUSR1};
static struct sigaction old;
static volatile sig_atomic_t seen;
static volatile int zero;
static sigjmp_buf back;

static void say(const char *word)
{
    printf("%s\n", word);
    fflush(stdout);
}

static const char *kind(simple handler)
{
    return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignored" : "another";
}

/* As libraries do that leave what they find in place. */
static void chain(int number, siginfo_t *info, void *context)
{
    seen++;
    if ((old.sa_flags & SA_SIGINFO) != 0)
        old.sa_sigaction(number, info, context);
    else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN)
        old.sa_handler(number);
}

static void leave(int number)
{
    siglongjmp(back, number);
}

static void count(int number)
{
    (void)number;
    seen++;
}

static void nest(int number)
{
    seen++;
    if (seen == 1)
        raise(SIGINT);
    (void)number;
}

static void query(void)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sigaction now;

        sigaction(all[i], NULL, &now);
        printf("%d: %s, flags %x", all[i], kind(now.sa_handler), (unsigned)now.sa_flags);
        printf(", %s\n", kind(signal(all[i], count)));
    }
    say(kind(sysv_signal(SIGSEGV, SIG_DFL)));
}

/* One that is saved after MPI_Init and put back, by either function, still ends the process. */
static void put_back(int by_signal)
{
    if (by_signal) {
        const simple was = signal(SIGTERM, count);

        raise(SIGTERM);
        signal(SIGTERM, was);
    } else {
        const struct sigaction mine = {.sa_handler = count};

        sigaction(SIGTERM, &mine, &old);
        raise(SIGTERM);
        sigaction(SIGTERM, &old, NULL);
    }
    say(seen == 1 ? "counted" : "lost");
    raise(SIGTERM);
}

static void fault_of(const char *way)
{
    const char *const name = "signals.tmp";
    const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    volatile char *const beyond =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); /* of an empty file */

    unlink(name);
    if (strcmp(way, "segv") == 0)
        *(volatile int *)8 = 1;
    else if (strcmp(way, "bus") == 0)
        beyond[100] = 1;
    else if (strcmp(way, "fpe") == 0)
        printf("%d\n", 100 / zero);
    else if (strcmp(way, "ill") == 0)
        __builtin_trap();
}

static int deeper(volatile char *from, int depth)
{
    volatile char here[4096];

    here[0] = from[0];
    return deeper(here, depth + 1) + here[0];
}

static void overflow(int other_stack)
{
    volatile char first[1] = {0};
    stack_t alternative = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};

    if (other_stack)
        sigaltstack(&alternative, NULL);
    deeper(first, 0);
}

static void *fault_of_thread(void *way)
{
    fault_of(way);
    return NULL;
}

static void in_child(int number)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        if (number == SIGABRT)
            abort();
        for (;;)
            pause();
    }
    if (number != SIGABRT)
        kill(child, number);
    waitpid(child, &status, 0);
    printf("child: signal %d\n", WTERMSIG(status));
    fflush(stdout);
}

static void block_one(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void wait_for_one(int by_file)
{
    const struct timespec long_time = {.tv_sec = 20};
    struct signalfd_siginfo read_one = {0};
    siginfo_t info = {0};
    sigset_t set;

    block_one(&set);
    const int fd = signalfd(-1, &set, 0);
    kill(getpid(), SIGTERM);
    if (by_file) {
        const ssize_t got = read(fd, &read_one, sizeof read_one);

        printf("read %zd of %u\n", got, read_one.ssi_signo);
    } else
        printf("waited: %d\n", sigtimedwait(&set, &info, &long_time));
    fflush(stdout);
}

static void timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    timer_t made;

    event.sigev_value.sival_int = 77;
    timer_create(CLOCK_MONOTONIC, &event, &made);
    timer_settime(made, 0, &soon, NULL);
    for (;;)
        pause();
}

static void queue(void)
{
    const union sigval value = {.sival_int = 4711};

    sigqueue(getpid(), SIGTERM, value);
}

static void go_on(void)
{
    struct sigaction mine = {.sa_sigaction = chain, .sa_flags = SA_SIGINFO};

    sigaction(SIGTERM, &mine, &old);
    raise(SIGTERM);
    raise(SIGTERM);
    printf("went on: %d\n", (int)seen);
    fflush(stdout);
}

static void jump(void)
{
    signal(SIGSEGV, leave);
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0)
            fault_of("segv");
        else
            seen++;
    printf("came back: %d\n", (int)seen);
    fflush(stdout);
}

static void ignore(void)
{
    signal(SIGTERM, SIG_IGN);
    raise(SIGTERM);
    say("not heard");
}

static void nested(void)
{
    signal(SIGTERM, nest);
    signal(SIGINT, count);
    raise(SIGTERM);
    printf("nested: %d\n", (int)seen);
    fflush(stdout);
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
}

static void after_init(const char *way)
{
    pthread_t thread;

    if (strcmp(way, "query") == 0)
        query();
    else if (strcmp(way, "chain") == 0)
        go_on();
    else if (strcmp(way, "signal-back") == 0 || strcmp(way, "sigaction-back") == 0)
        put_back(way[3] == 'n');
    else if (strcmp(way, "raise") == 0)
        raise(SIGSEGV);
    else if (strcmp(way, "kill") == 0)
        kill(getpid(), SIGTERM);
    else if (strcmp(way, "abort") == 0)
        abort();
    else if (strcmp(way, "queue") == 0)
        queue();
    else if (strcmp(way, "timer") == 0)
        timer();
    else if (strcmp(way, "stack") == 0 || strcmp(way, "other-stack") == 0)
        overflow(way[0] == 'o');
    else if (strcmp(way, "thread") == 0) {
        pthread_create(&thread, NULL, fault_of_thread, "segv");
        pthread_join(thread, NULL);
    } else if (strcmp(way, "child") == 0) {
        in_child(SIGTERM);
        in_child(SIGABRT);
    } else if (strcmp(way, "wait") == 0 || strcmp(way, "file") == 0)
        wait_for_one(way[0] == 'f');
    else if (strcmp(way, "jump") == 0)
        jump();
    else if (strcmp(way, "ignore") == 0)
        ignore();
    else if (strcmp(way, "nested") == 0)
        nested();
    else
        fault_of(way);
}

int main(int argc, char **argv)
{
    const char *const way = argc > 1 ? argv[1] : "";
    const struct rlimit no_core = {0, 0};
    simple was = SIG_ERR;
    sigset_t blocked;

    setrlimit(RLIMIT_CORE, &no_core);
    if (strcmp(way, "earlier") == 0)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            signal(all[i], count);
    if (strcmp(way, "wait") == 0 || strcmp(way, "file") == 0)
        block_one(&blocked); /* in the library's threads too */
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_SELF); /* with the first record comes a log to note a signal in */
    if (strcmp(way, "earlier") == 0) {
        raise(SIGTERM);
        raise(SIGABRT);
        printf("heard: %d\n", (int)seen);
        query();
    } else if (strcmp(way, "later") == 0)
        was = signal(SIGTERM, count);
    else
        after_init(way);
    MPI_Finalize();
    if (strcmp(way, "later") == 0) {
        signal(SIGTERM, was);
        raise(SIGTERM);
    }
    say("end");
    return 0;
}
