/* SIGBUS in the recorder's mapped files after another process truncated them.
 *
 *      address in such a file   mapped_replace maps anonymous memory there; the access is repeated
 *      any other SIGBUS         the program's action runs, with its flags, mask and stack
 *
 * The recorder's handler stays installed while files are mapped, whatever the program sets.
 * `program_action` is the program's action. The installed handler has its flags, mask and alternate
 * stack, so the program's handler is entered as by the kernel. This file implements SA_RESETHAND. A
 * program that queries the action receives its action, not the recorder's (signal_wrappers.c).
 *
 * The kernel ends a process if its thread ignores or blocks the SIGBUS of a page fault. So SIG_IGN
 * stays installed, and such threads compare the file's length before they write (record_check). A
 * file that shrinks between the check and the write still ends the process.
 *
 * Threads: any, and signal handlers.
 */
#include "init/init.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "record/record.h"

static struct sigaction program_action; /* the program's action; protected by `busy` */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static atomic_bool watched;
static pid_t process;

static void bus_error_handle(int number, siginfo_t *info, void *context);

/* Block all signals in the thread that takes the lock: a signal handler might set actions, too. */
static void action_lock(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, _NSIG / 8);
    while (atomic_flag_test_and_set(&busy))
        sched_yield();
}

static void action_unlock(const sigset_t *before)
{
    atomic_flag_clear(&busy);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, _NSIG / 8);
}

static bool is_ours(const struct sigaction *a)
{
    return (uintptr_t)a->sa_sigaction == (uintptr_t)bus_error_handle;
}

/* Install the handler that suits the program's action. The caller holds the lock. */
static void handler_install(void)
{
    struct sigaction ours = {.sa_sigaction = bus_error_handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    const bool ignored = program_action.sa_handler == SIG_IGN;

    sigemptyset(&ours.sa_mask);
    if (!fatal_signal_is_deadly(&program_action)) {
        ours.sa_flags = (program_action.sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
        ours.sa_mask = program_action.sa_mask;
    }
    atomic_store(&mapped_is_unguarded, ignored);
    if (!ignored)
        fatal_signal_action(SIGBUS, &ours, NULL);
}

/* Reinstall the recorder's handler after the program has set or queried the action of SIGBUS. If
 * old is not NULL and contains that handler, it is replaced by the program's action. */
void bus_error_adopt(struct sigaction *old)
{
    struct sigaction now;
    sigset_t before;

    if (!atomic_load(&watched))
        return;
    if (getpid() != process) { /* a child; after vfork() it shares memory, not actions */
        if (old != NULL && is_ours(old))
            *old = program_action;
        return;
    }
    action_lock(&before);
    if (old != NULL && is_ours(old))
        *old = program_action;
    if (atomic_load(&watched) && fatal_signal_action(SIGBUS, NULL, &now) == 0 && !is_ours(&now)) {
        program_action = now;
        handler_install();
    }
    action_unlock(&before);
    self.bus = BUS_UNKNOWN; /* sigset() may block SIGBUS */
}

/* Return the program's action for a received signal, and apply its SA_RESETHAND. */
static struct sigaction take_action(void)
{
    struct sigaction found;
    sigset_t before;

    action_lock(&before);
    found = program_action;
    if ((program_action.sa_flags & (int)SA_RESETHAND) != 0 &&
        !fatal_signal_is_deadly(&program_action)) {
        program_action.sa_handler = SIG_DFL;
        handler_install();
    }
    action_unlock(&before);
    return found;
}

static void bus_error_handle(int number, siginfo_t *info, void *context)
{
    const int reason = errno;
    const bool by_kernel = info->si_code > 0; /* a fault, which recurs after the return */

    if (by_kernel && mapped_replace(info->si_addr))
        return;
    if (getpid() != process) { /* a child: from now on the program's action applies */
        if (by_kernel)
            fatal_signal_action(SIGBUS, &program_action, NULL);
        else
            fatal_signal_end(number, info, &program_action);
        return;
    }
    const struct sigaction found = take_action();

    errno = reason;
    if (fatal_signal_is_deadly(&found))
        fatal_signal_end(number, info, &found);
    else if (found.sa_handler != SIG_IGN)
        found.sa_sigaction(number, info, context);
}

void bus_error_install(void)
{
    process = getpid();
    atomic_store(&watched, true);
    bus_error_adopt(NULL);
}

/* Restore the program's action when nothing is written to mapped files any more. */
void bus_error_uninstall(void)
{
    struct sigaction was;
    sigset_t before;

    if (!atomic_load(&watched))
        return;
    action_lock(&before);
    atomic_store(&watched, false);
    if (fatal_signal_action(SIGBUS, NULL, &was) == 0 && is_ours(&was) &&
        fatal_signal_action(SIGBUS, &program_action, &was) == 0 && !is_ours(&was))
        fatal_signal_action(SIGBUS, &was, NULL); /* another thread set this action meanwhile */
    action_unlock(&before);
}
