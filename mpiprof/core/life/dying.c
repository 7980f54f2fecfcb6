/* The signal that ends a rank, noted in its log, so that those who look later know who died of what
 * and who was only killed with it.
 *
 * Only where the signal would end the process anyway: by default, or through Open MPI's own handler,
 * which prints where it was. What stood there before is put back and gets the very signal, with all
 * that was said of it; a handler that the program sets takes the place of ours. The handler writes
 * that number, and the sum of its thread's window, to mapped memory. SIGBUS has a handler of its own
 * (bus_error.c), which ends here as well.
 *
 * A program that asks for a handler is told what stood there before ours (signal_wrappers.c). A
 * runtime that asks the kernel itself finds our handler, whose call then ends the process.
 *
 * What differs: on a stack without room for a handler the kernel ends the process by the same
 * signal, but a core file says that the kernel sent it, without the address. A process that waits
 * for a file system which does not answer can be killed by SIGKILL only.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "life/dying.h"
#include "record/record.h"

typedef int (*action_setter)(int, const struct sigaction *, struct sigaction *);

static const int deadly[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTERM};
enum { COUNT = sizeof deadly / sizeof *deadly };
static struct sigaction before[COUNT];
static pid_t process;
static action_setter set_action;

/* Returns what stood at a signal before our handler, or NULL if that signal never had ours. */
static const struct sigaction *before_of(int number)
{
    for (int i = 0; i < COUNT; i++)
        if (deadly[i] == number)
            return &before[i];
    return NULL;
}

/* Notes a signal and lets it end the process, as `otherwise` does. info: what was said of the signal,
 * or NULL if nothing was. It comes when the handler that calls this returns. */
void dying_end(int number, siginfo_t *info, const struct sigaction *otherwise)
{
    const int kept = errno;

    if (getpid() == process) /* not a child that was forked, which has the same memory */
        record_signal(number);
    set_action(number, otherwise, NULL);
    if (info == NULL ||
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) != 0)
        raise(number);
    errno = kept;
}

static void note(int number, siginfo_t *info, void *context)
{
    static const struct sigaction by_default = {.sa_handler = SIG_DFL};
    const struct sigaction *const found = before_of(number);
    const int kept = errno;
    struct sigaction now = {0};

    (void)context;
    set_action(number, NULL, &now);
    /* One that was set without SA_SIGINFO is told nothing. */
    dying_end(number, (now.sa_flags & SA_SIGINFO) != 0 ? info : NULL,
              found != NULL ? found : &by_default);
    errno = kept;
}

static bool is_ours(const struct sigaction *a)
{
    return (uintptr_t)a->sa_sigaction == (uintptr_t)note; /* by signal() it lost its flags */
}

/* Puts what stood before our handler in its place in `a`; returns false if `a` is not our handler. */
bool dying_restore(int number, struct sigaction *a)
{
    const struct sigaction *const found = before_of(number);

    if (found == NULL || !is_ours(a))
        return false;
    *a = *found;
    return true;
}

/* As sigaction of the C library. */
int dying_action(int number, const struct sigaction *new, struct sigaction *old)
{
    if (set_action == NULL)
        set_action = (action_setter)(uintptr_t)dlsym(RTLD_NEXT, "sigaction");
    if (set_action != NULL)
        return set_action(number, new, old);
    errno = ENOSYS;
    return -1;
}

/* Looked up before a signal handler can ask. */
__attribute__((constructor)) static void dying_find(void)
{
    dying_action(SIGTERM, NULL, NULL);
}

/* Returns whether a signal with this action ends the process. */
bool dying_is_deadly(const struct sigaction *a)
{
    Dl_info where = {0};

    if (a->sa_handler == SIG_DFL || (a->sa_flags & SA_SIGINFO) == 0)
        return a->sa_handler == SIG_DFL;
    return dladdr((const void *)(uintptr_t)a->sa_sigaction, &where) != 0 &&
           where.dli_fname != NULL && strstr(where.dli_fname, "libopen-pal") != NULL;
}

/* Another thread may set a handler of its own meanwhile: it stays. */
static void replace(int number, const struct sigaction *from, const struct sigaction *to)
{
    struct sigaction was = *from;

    if (dying_action(number, to, &was) == 0 && was.sa_sigaction != from->sa_sigaction)
        dying_action(number, &was, NULL);
}

void dying_watch(void)
{
    struct sigaction mine = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    process = getpid();
    sigemptyset(&mine.sa_mask);
    for (int i = 0; i < COUNT; i++)
        if (dying_action(deadly[i], NULL, &before[i]) == 0 && dying_is_deadly(&before[i]))
            replace(deadly[i], &before[i], &mine);
}

void dying_forget(void)
{
    struct sigaction now;

    for (int i = 0; i < COUNT; i++)
        if (dying_action(deadly[i], NULL, &now) == 0 && is_ours(&now))
            replace(deadly[i], &now, &before[i]);
}
