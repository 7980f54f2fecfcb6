/* Wrappers of signal functions, which hide the recorder's handlers (fatal_signals.c, bus_error.c).
 *
 * Many programs call a previous handler that is not the default, or reinstall it later, even with
 * signal(), which drops the flags. So sigaction, signal and similar functions return the action
 * before the recorder's, and forward everything else unchanged. Masks are forwarded unchanged, too.
 * The thread's SIGBUS state is invalidated, because a thread that blocks SIGBUS must check file
 * lengths (record_check).
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/init.h"
#include "record/record.h"

typedef void (*simple_handler)(int);
typedef simple_handler (*handler_setter)(int, simple_handler);
typedef int (*mask_setter)(int, const sigset_t *, sigset_t *);

static void action_restore(int number, struct sigaction *old)
{
    if (number == SIGBUS)
        bus_error_adopt(old);
    else if (old != NULL)
        fatal_signal_restore(number, old);
}

PUBLIC int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    const int error = fatal_signal_action(number, new, old);

    if (error == 0 && (new != NULL || old != NULL))
        action_restore(number, old);
    return error;
}

/* Forward to the function of this name and cache its address in `found`. */
static simple_handler handler_forward(_Atomic(handler_setter) *found, const char *name, int number,
                                      simple_handler new)
{
    handler_setter real = atomic_load(found);
    struct sigaction old = {0};

    if (real == NULL) {
        real = (handler_setter)(uintptr_t)dlsym(RTLD_NEXT, name);
        atomic_store(found, real);
    }
    if (real == NULL) {
        errno = ENOSYS;
        return SIG_ERR;
    }
    old.sa_handler = real(number, new);
    if (old.sa_handler != SIG_ERR)
        action_restore(number, &old);
    return old.sa_handler;
}

#define LIKE_SIGNAL(name)                                                                          \
    PUBLIC simple_handler name(int number, simple_handler new);                                    \
    PUBLIC simple_handler name(int number, simple_handler new)                                     \
    {                                                                                              \
        static _Atomic(handler_setter) found;                                                      \
                                                                                                   \
        return handler_forward(&found, #name, number, new);                                        \
    }

/* The C library resolves `signal` to a variant that depends on the program's standard. */
LIKE_SIGNAL(signal)
LIKE_SIGNAL(bsd_signal)
LIKE_SIGNAL(__sysv_signal)
LIKE_SIGNAL(sysv_signal)
LIKE_SIGNAL(sigset)

/* ---- signal masks */

static mask_setter set_thread_mask, set_mask;

static mask_setter mask_setter_find(mask_setter *cached, const char *name)
{
    if (*cached == NULL)
        *cached = (mask_setter)(uintptr_t)dlsym(RTLD_NEXT, name);
    return *cached;
}

/* Look up the functions at load time, because dlsym is unsafe in a signal handler. */
__attribute__((constructor)) static void masks_find(void)
{
    mask_setter_find(&set_thread_mask, "pthread_sigmask");
    mask_setter_find(&set_mask, "sigprocmask");
}

static int mask_set(mask_setter real, int how, const sigset_t *set, sigset_t *old)
{
    const int error = real != NULL
                          ? real(how, set, old)
                          : (int)syscall(SYS_rt_sigprocmask, how, set, old, (size_t)_NSIG / 8);

    if (set != NULL)
        self.bus = BUS_UNKNOWN;
    return error;
}

PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return mask_set(mask_setter_find(&set_thread_mask, "pthread_sigmask"), how, set, old);
}

PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return mask_set(mask_setter_find(&set_mask, "sigprocmask"), how, set, old);
}
