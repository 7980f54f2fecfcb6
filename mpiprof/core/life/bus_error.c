/* SIGBUS of our mapped files when another process truncates them, kept apart from the program's own.
 *
 *      our pages        mapped_replace puts anonymous memory there; the access is repeated
 *      any other SIGBUS the action that the program has set, with its flags, mask and stack
 *
 * Our handler stays installed while files are mapped, whatever the program sets. `asked` is the
 * program's action. Its flags, mask and use of another stack are those of ours, so a handler of the
 * program is entered as the kernel would enter it; SA_RESETHAND is done here. A program that asks
 * for the action is told its own (signal_wrappers.c).
 *
 * The kernel ends a process whose thread ignores or blocks the SIGBUS of a page fault. So SIG_IGN is
 * left in place, and such threads compare the length of the file before they write
 * (record_check): a file that shrinks between the two still ends the process.
 *
 * Threads: any, and signal handlers.
 */
#include "life/bus_error.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mapped.h"
#include "life/dying.h"
#include "record/thread.h"

static struct sigaction asked; /* by the program; under `busy` */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static atomic_bool watched;
static pid_t process;

static void handle(int number, siginfo_t *info, void *context);

/* No signal may come to the thread that holds the lock: its handler might set actions, too. */
static void lock(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, _NSIG / 8);
    while (atomic_flag_test_and_set(&busy))
        sched_yield();
}

static void unlock(const sigset_t *before)
{
    atomic_flag_clear(&busy);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, _NSIG / 8);
}

static bool is_ours(const struct sigaction *a)
{
    return (uintptr_t)a->sa_sigaction == (uintptr_t)handle;
}

/* Installs our handler for what the program has asked for. Under the lock. */
static void install(void)
{
    struct sigaction ours = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    const bool ignored = asked.sa_handler == SIG_IGN;

    sigemptyset(&ours.sa_mask);
    if (!dying_is_deadly(&asked)) {
        ours.sa_flags = (asked.sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
        ours.sa_mask = asked.sa_mask;
    }
    atomic_store(&mapped_unguarded, ignored);
    if (!ignored)
        dying_action(SIGBUS, &ours, NULL);
}

/* After the program has set or queried the action of SIGBUS: takes its place again. old: what stood
 * there before, in which the program's action takes the place of ours; NULL if nobody wants it. */
void bus_error_adopt(struct sigaction *old)
{
    struct sigaction now;
    sigset_t before;

    if (!atomic_load(&watched))
        return;
    if (getpid() != process) { /* a child; by vfork() it has our memory, but actions of its own */
        if (old != NULL && is_ours(old))
            *old = asked;
        return;
    }
    lock(&before);
    if (old != NULL && is_ours(old))
        *old = asked;
    if (atomic_load(&watched) && dying_action(SIGBUS, NULL, &now) == 0 && !is_ours(&now)) {
        asked = now;
        install();
    }
    unlock(&before);
    self.bus = BUS_UNKNOWN; /* sigset() blocks signals */
}

/* Returns the action for a signal that has come, which SA_RESETHAND resets for the next. */
static struct sigaction take_action(void)
{
    struct sigaction found;
    sigset_t before;

    lock(&before);
    found = asked;
    if ((asked.sa_flags & (int)SA_RESETHAND) != 0 && !dying_is_deadly(&asked)) {
        asked.sa_handler = SIG_DFL;
        install();
    }
    unlock(&before);
    return found;
}

static void handle(int number, siginfo_t *info, void *context)
{
    const int reason = errno;

    const bool by_kernel = info->si_code > 0; /* a fault, which is repeated */

    if (by_kernel && mapped_replace(info->si_addr))
        return;
    if (getpid() != process) { /* a child: the action is the program's from here on */
        if (by_kernel)
            dying_action(SIGBUS, &asked, NULL);
        else
            dying_end(number, info, &asked);
        return;
    }
    const struct sigaction found = take_action();

    errno = reason;
    if (dying_is_deadly(&found))
        dying_end(number, info, &found);
    else if (found.sa_handler != SIG_IGN)
        found.sa_sigaction(number, info, context);
}

void bus_error_watch(void)
{
    process = getpid();
    atomic_store(&watched, true);
    bus_error_adopt(NULL);
}

/* Nothing is written to mapped files any more. */
void bus_error_forget(void)
{
    struct sigaction was;
    sigset_t before;

    if (!atomic_load(&watched))
        return;
    lock(&before);
    atomic_store(&watched, false);
    if (dying_action(SIGBUS, NULL, &was) == 0 && is_ours(&was) &&
        dying_action(SIGBUS, &asked, &was) == 0 && !is_ours(&was))
        dying_action(SIGBUS, &was, NULL); /* another thread has just set it */
    unlock(&before);
}
