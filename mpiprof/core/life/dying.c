/* The signal that ends a rank, noted in its log, so that those who look later know who died of what
 * and who was only killed with it.
 *
 * Only where the signal would end the process anyway: by default, or through Open MPI's own handler,
 * which prints where it was. What stood there before is put back and gets the very signal, with all
 * that was said of it; a handler that the program sets takes the place of ours. The handler writes
 * that number, and the sum of its thread's window, to mapped memory.
 *
 * A program that asks for a handler is told what stood there before ours: many call what they find
 * where it is not the default, or set it again later, by signal() too, which keeps no flags. So
 * sigaction and the functions like signal are wrapped, and forward all else as it is. A runtime that
 * asks the kernel itself finds our handler, whose call then ends the process.
 *
 * What differs: on a stack without room for a handler the kernel ends the process by the same
 * signal, but a core file says that the kernel sent it, without the address. A process that waits
 * for a file system which does not answer can be killed by SIGKILL only.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/common.h"
#include "base/recorder.h"
#include "life/dying.h"
#include "record/record.h"

typedef void (*simple_handler)(int);
typedef int (*action_setter)(int, const struct sigaction *, struct sigaction *);
typedef simple_handler (*handler_setter)(int, simple_handler);

static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM};
enum { COUNT = sizeof deadly / sizeof *deadly };
static struct sigaction before[COUNT];
static pid_t process;
static action_setter set_action;

static int place_of(int number)
{
    int i = 0;

    while (i < COUNT && deadly[i] != number)
        i++;
    return i;
}

static void note(int number, siginfo_t *info, void *context)
{
    const int kept = errno;
    struct sigaction now = {0};

    (void)context;
    if (getpid() == process) /* not a child that was forked, which has the same memory */
        record_signal(number);
    set_action(number, NULL, &now);
    set_action(number, &before[place_of(number)], NULL);
    /* It comes when this handler returns. One that was set without SA_SIGINFO is told nothing. */
    if ((now.sa_flags & SA_SIGINFO) == 0 ||
        syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) != 0)
        raise(number);
    errno = kept;
}

static bool is_ours(const struct sigaction *a)
{
    return (uintptr_t)a->sa_sigaction == (uintptr_t)note; /* by signal() it lost its flags */
}

static int real_action(int number, const struct sigaction *new, struct sigaction *old)
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
    real_action(SIGTERM, NULL, NULL);
}

PUBLIC int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    const int error = real_action(number, new, old);

    if (error == 0 && old != NULL && is_ours(old))
        *old = before[place_of(number)];
    return error;
}

/* Forwards to the function of this name, which is kept where it is found. */
static simple_handler forward(_Atomic(handler_setter) *found, const char *name, int number,
                              simple_handler new)
{
    handler_setter real = atomic_load(found);
    simple_handler old;

    if (real == NULL) {
        real = (handler_setter)(uintptr_t)dlsym(RTLD_NEXT, name);
        atomic_store(found, real);
    }
    if (real == NULL) {
        errno = ENOSYS;
        return SIG_ERR;
    }
    old = real(number, new);
    return (uintptr_t)old == (uintptr_t)note ? before[place_of(number)].sa_handler : old;
}

#define LIKE_SIGNAL(name)                                                                          \
    PUBLIC simple_handler name(int number, simple_handler new);                                    \
    PUBLIC simple_handler name(int number, simple_handler new)                                     \
    {                                                                                              \
        static _Atomic(handler_setter) found;                                                      \
                                                                                                   \
        return forward(&found, #name, number, new);                                                \
    }

/* Where a program's standard decides, `signal` is one of the others. */
LIKE_SIGNAL(signal)
LIKE_SIGNAL(bsd_signal)
LIKE_SIGNAL(__sysv_signal)
LIKE_SIGNAL(sysv_signal)
LIKE_SIGNAL(sigset)

static bool is_deadly(const struct sigaction *a)
{
    Dl_info where = {0};

    if ((a->sa_flags & SA_SIGINFO) == 0)
        return a->sa_handler == SIG_DFL;
    return dladdr((const void *)(uintptr_t)a->sa_sigaction, &where) != 0 &&
           where.dli_fname != NULL && strstr(where.dli_fname, "libopen-pal") != NULL;
}

/* Another thread may set a handler of its own meanwhile: it stays. */
static void replace(int number, const struct sigaction *from, const struct sigaction *to)
{
    struct sigaction was = *from;

    if (real_action(number, to, &was) == 0 && was.sa_sigaction != from->sa_sigaction)
        real_action(number, &was, NULL);
}

void dying_watch(void)
{
    struct sigaction mine = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    process = getpid();
    sigemptyset(&mine.sa_mask);
    for (int i = 0; i < COUNT; i++)
        if (real_action(deadly[i], NULL, &before[i]) == 0 && is_deadly(&before[i]))
            replace(deadly[i], &before[i], &mine);
}

void dying_forget(void)
{
    struct sigaction now;

    for (int i = 0; i < COUNT; i++)
        if (real_action(deadly[i], NULL, &now) == 0 && is_ours(&now))
            replace(deadly[i], &now, &before[i]);
}
